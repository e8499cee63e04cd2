//! Entering a gated site: members get in, and others are told why they do not.

use reqwest::Method;
use serde_json::json;

use super::{enter, gated};
use crate::world::{OPERATOR_SECRET, Site, World};

#[tokio::test]
async fn members_sign_in_and_see_the_site() {
    let world = World::start().await;
    let (_, site) = gated(&world).await;
    let person = world.person();
    let page = format!("{}/deep/page?x=1&y=%2F", site.url);
    let form = person.visit(&page).await;
    form.assert_says("engine.svc.localhost").assert_says("Sign in");
    assert_eq!(form.url.host_str(), Some("app.svc.localhost"));
    let seen = person.fill(&form, &[("login", "bob"), ("password", OPERATOR_SECRET)]).await;
    seen.assert_at(200, &page);
    assert_eq!(seen.answer.text(), "secret page");
    assert_eq!(seen.answer.header("cache-control"), "private, no-store");
    // Once in, the site answers by itself, what a page loads too.
    person.request(Method::GET, &format!("{}/", site.url)).await.assert_body(200, "secret home");

    // What the site's host was given: cookies of its own, for it alone, and nothing that is worth anything elsewhere.
    let cookies: Vec<_> = form.cookies_set().into_iter().chain(seen.cookies_set()).collect();
    for (host, cookie) in &cookies {
        let lower = cookie.to_ascii_lowercase();
        assert!(cookie.starts_with("__Host-svc-") && !lower.contains("domain"), "{host}: {cookie}");
        assert!(lower.contains("; path=/") && lower.contains("; secure; httponly; samesite=lax"), "{host}: {cookie}");
    }
    let of = |wanted: &str| {
        let of_host = cookies.iter().filter(|(host, _)| host == wanted);
        of_host.map(|(_, cookie)| cookie.split('=').next().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of("engine.svc.localhost"), ["__Host-svc-visitor", "__Host-svc-gate"]);
    assert_eq!(of("app.svc.localhost"), ["__Host-svc-session"]);
    let session = cookies.iter().find(|(_, cookie)| cookie.starts_with("__Host-svc-session")).unwrap();
    let secret = session.1.split(['=', ';']).nth(1).unwrap();
    for (url, answer) in &seen.trail {
        if url.host_str() != Some("app.svc.localhost") {
            assert!(!url.as_str().contains(secret) && !format!("{:?}", answer.headers).contains(secret));
        }
    }
}

#[tokio::test]
async fn who_is_signed_in_passes_without_being_asked() {
    let world = World::start().await;
    let (ada, site) = gated(&world).await;
    let person = world.person();
    enter(&person, &site.url, "bob").await;
    // Another address of the project, another site of the org.
    let permanent = person.visit(&format!("{}/deep/page", site.permanent_url())).await;
    permanent.assert_at(200, &format!("{}/deep/page", site.permanent_url()));
    assert_eq!(permanent.answer.header("x-robots-tag"), "noindex");
    ada.post("/projects").json(&json!({ "name": "other", "org": "team" })).await.created();
    let other = ada.deploy("other", &Site::page("other secret")).await;
    ada.put("/projects/other/access").json(&json!({ "mode": "org" })).await.ok();
    assert_eq!(person.visit(&other.url).await.answer.text(), "other secret");
    // A badge of one is nothing at the other.
    let seen = person.visit(&format!("{}/", site.url)).await;
    assert_eq!(seen.trail.len(), 1);
}

#[tokio::test]
async fn strangers_see_nothing() {
    let world = World::start().await;
    let (_, site) = gated(&world).await;
    let edge = world.edge();
    for base in [&site.url, &site.permanent_url()] {
        for path in ["/", "/deep/page", "/nothing", "/index.html", "/_headers", "/.svc/gate", "/.svc/other"] {
            let sent = edge.navigate(&format!("{base}{path}")).await.assert_status(302);
            assert!(sent.header("location").starts_with(&world.console_url("/gate?host=")), "{:?}", sent.headers);
            assert_eq!(sent.header("cache-control"), "private, no-store");
            let refused = edge.get(&format!("{base}{path}")).await.assert_status(401);
            assert!(!refused.text().contains("secret") && refused.find_header("etag").is_none());
        }
        edge.post(base).await.assert_status(401);
        edge.get(base).header("if-none-match", "*").await.assert_status(401);
        edge.get(base).header("authorization", "Bearer x").await.assert_status(401);
    }
    // Plain HTTP leads to HTTPS before anything else.
    let plain = edge.get("http://engine.svc.localhost/deep/page?x=1").await.assert_status(308);
    assert!(plain.header("location").starts_with("https://engine.svc.localhost"));
    assert!(plain.find_header("set-cookie").is_none());
}

#[tokio::test]
async fn who_is_no_member_is_told_so_and_may_be_somebody_else() {
    let world = World::start().await;
    let (_, site) = gated(&world).await;
    let person = world.person();
    let page = enter(&person, &format!("{}/deep/page", site.url), "mallory").await;
    assert_eq!(page.answer.status, 403);
    page.assert_says("Members only").assert_says("mallory").assert_says("Use another account");
    assert!(!page.answer.text().contains("team"), "which organization it is, is its members' business");
    assert!(page.cookies_set().iter().all(|(host, _)| host == "app.svc.localhost"));
    // Somebody else, and straight to where they were going.
    let form = person.fill(&page, &[]).await;
    form.assert_says("engine.svc.localhost");
    let seen = person.fill(&form, &[("login", "bob"), ("password", OPERATOR_SECRET)]).await;
    seen.assert_at(200, &format!("{}/deep/page", site.url));
    assert_eq!(world.sql_number("SELECT count(*) FROM gate_tickets").await, 0);
}
