//! The gate of an organization's site, as its members, strangers and thieves meet it.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;
use url::Url;

use crate::{
    BACKGROUND,
    world::{
        Actor, OPERATOR_SECRET, Site, World,
        actor::Uploaded,
        answer::Answer,
        eventually,
        person::{Page, Person},
    },
};

/// `engine`, which ada's org `team` keeps for its members, of whom bob is one.
pub async fn gated(world: &World) -> (Actor, Uploaded) {
    let ada = world.user("ada").await;
    let bob = world.user("bob").await;
    ada.create_org("team").await;
    join(&ada, &bob).await;
    ada.post("/projects").json(&json!({ "name": "engine", "org": "team" })).await.created();
    let site = Site::page("secret home").file("deep/page.html", "secret page");
    let deployed = ada.deploy("engine", &site).await;
    ada.put("/projects/engine/access").json(&json!({ "mode": "org" })).await.ok();
    (ada, deployed)
}

/// Makes somebody a member of `team`, by an invitation.
async fn join(ada: &Actor, person: &Actor) -> Answer {
    let invite = json!({ "email": "somebody@localhost", "role": "member" });
    let invite = ada.post("/orgs/team/invites").json(&invite).await.created();
    let token = invite["invite_url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    person.post(&format!("/invites/{token}/accept")).await.assert_status(200)
}

async fn leave(ada: &Actor, login: &str) -> Answer {
    ada.delete(&format!("/orgs/team/members/{login}")).await.assert_status(200)
}

/// From the site to the console, through the form, and back.
async fn enter(person: &Person, url: &str, login: &str) -> Page {
    let form = person.visit(url).await;
    form.assert_says("Sign in");
    person.fill(&form, &[("login", login), ("password", OPERATOR_SECRET)]).await
}

/// The ticket that the console gives, not yet redeemed: the address that it leads to.
async fn ticket(person: &Person, site: &str) -> String {
    let sent = person.step(site).await.assert_status(302);
    person.step(sent.header("location")).await.assert_status(303).header("location").to_owned()
}

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

#[tokio::test]
async fn a_ticket_works_once() {
    let world = World::builder().edges(3).start().await;
    let (_, site) = gated(&world).await;
    let person = world.person();
    person.sign_in("bob").await;
    let address = ticket(&person, &format!("{}/deep/page", site.url)).await;
    assert!(address.starts_with(&format!("{}/.svc/enter?ticket=", site.url)), "{address}");
    let stored =
        world.sql_number("SELECT count(*) FROM gate_tickets WHERE expires_at <= now() + interval '60 s'").await;
    assert_eq!(stored, 1);
    let secret = Url::parse(&address).unwrap().query_pairs().next().unwrap().1.into_owned();
    let in_clear = format!("SELECT count(*) FROM gate_tickets t WHERE t::text LIKE '%{secret}%'");
    assert_eq!(world.sql_number(&in_clear).await, 0);

    // Twenty times at once, at all edges: one of them gets in.
    let visitor = visitor_cookie(&person, &site.url).await;
    let tries = (0..20).map(|at| world.edges[at % 3].navigate(&address).header("cookie", &visitor).attempt());
    let answers: Vec<_> = join_all(tries).await.into_iter().map(Result::unwrap).collect();
    let entered: Vec<_> = answers.iter().filter(|answer| answer.status == 303).collect();
    assert_eq!(entered.len(), 1);
    entered[0].clone().assert_redirect(303, "/deep/page");
    assert!(answers.iter().filter(|answer| answer.status != 303).all(|answer| {
        answer.status == 403 && answer.find_header("set-cookie").is_none() && answer.text().contains("Open the site")
    }));
}

/// What the person's browser is known by at the site: asked for anew, which changes nothing.
async fn visitor_cookie(person: &Person, site: &str) -> String {
    person.step(site).await.assert_status(302).header("set-cookie").split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_ticket_is_for_one_browser_one_host_and_one_minute() {
    let mut world = World::start().await;
    let (ada, site) = gated(&world).await;
    let [person, thief] = [world.person(), world.person()];
    person.sign_in("bob").await;
    // Overheard: another browser gets nowhere, and the ticket is spent.
    let address = ticket(&person, &site.url).await;
    thief.step(&site.url).await.assert_status(302);
    thief.step(&address).await.assert_status(403);
    person.step(&address).await.assert_status(403);
    // A member's ticket, pressed upon somebody who asked for nothing.
    let address = ticket(&person, &site.url).await;
    assert_eq!(world.person().step(&address).await.status, 403);
    // At another address of the same project.
    let address = ticket(&person, &site.url).await.replace(&site.url, &site.permanent_url());
    person.step(&site.permanent_url()).await.assert_status(302);
    person.step(&address).await.assert_status(403);
    // Too late.
    let address = ticket(&person, &site.url).await;
    world.sql("UPDATE gate_tickets SET expires_at = now()").await;
    person.step(&address).await.assert_status(403);
    // After the gate was changed.
    let address = ticket(&person, &site.url).await;
    for mode in ["public", "org"] {
        ada.put("/projects/engine/access").json(&json!({ "mode": mode })).await.ok();
    }
    person.step(&address).await.assert_status(403);
    // And the real one still works.
    let address = ticket(&person, &site.url).await;
    person.visit(&address).await.assert_at(200, &format!("{}/", site.url));
    // Tickets that nobody redeemed are cleared away.
    ticket(&world_member(&world).await, &site.url).await;
    world.sql("UPDATE gate_tickets SET expires_at = now() - interval '1 hour'").await;
    world.restart_admin_later().await;
    eventually(BACKGROUND, "they are forgotten", async || {
        world.sql_number("SELECT count(*) FROM gate_tickets").await == 0
    })
    .await;
}

async fn world_member(world: &World) -> Person {
    let person = world.person();
    person.sign_in("bob").await;
    person
}

#[tokio::test]
async fn the_way_through_leads_nowhere_else() {
    let world = World::start().await;
    let (ada, site) = gated(&world).await;
    ada.publish("public", &Site::page("public")).await;
    let person = world_member(&world).await;
    let visitor = "A".repeat(43);
    let gate = |host: &str, back: &str, visitor: &str| {
        let query = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("host", host)
            .append_pair("return", back)
            .append_pair("visitor", visitor)
            .finish();
        world.console_url(&format!("/gate?{query}"))
    };
    for host in [
        "",
        "evil.example",
        "engine.svc.localhost.evil.example",
        "engine.svc.localhost@evil.example",
        "evil.example/engine.svc.localhost",
        "engine.svc.localhost:8443",
        "ENGINE.svc.localhost",
        "engine.svc.localhost.",
        "engine.svc.localhost/",
        "engine.svc.localhost#",
        "engine.svc.localhost\\",
        "//evil.example",
        ".svc.localhost",
        "a.engine.svc.localhost",
        "public.svc.localhost",
        "nothing.svc.localhost",
        "app.svc.localhost",
        "api.svc.localhost",
        "svc.localhost",
        "engine.svc.localhost\r\nx: y",
        "127.0.0.1",
        "[::1]",
    ] {
        let answer = person.step(&gate(host, "/", &visitor)).await.assert_status(404);
        assert!(answer.find_header("location").is_none(), "{host:?}");
        assert!(!answer.text().contains("evil.example"), "{host:?}: {}", answer.text());
    }
    for bad in ["", "x", "AAAA", &"A".repeat(44), &format!("{}B", "A".repeat(42))] {
        person.step(&gate("engine.svc.localhost", "/", bad)).await.assert_status(404);
    }
    person.step(&world.console_url("/gate")).await.assert_status(404);
    // The way back is a path of the site, whatever the console was told.
    for back in [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "x",
        "javascript:alert(1)",
        "/.svc/enter?ticket=x",
        "/\r\nSet-Cookie: a=b",
        "@evil.example",
    ] {
        let fresh = world_member(&world).await;
        let sent = fresh.step(&site.url).await.assert_status(302);
        let asked: Url = sent.header("location").parse().unwrap();
        let visitor = asked.query_pairs().find(|(name, _)| name == "visitor").unwrap().1.into_owned();
        let given = fresh.step(&gate("engine.svc.localhost", back, &visitor)).await.assert_status(303);
        let there: Url = given.header("location").parse().unwrap();
        assert_eq!(there.origin(), Url::parse(&site.url).unwrap().origin(), "{back:?}");
        fresh.step(there.as_str()).await.assert_redirect(303, "/");
    }
    // Asked by a form of elsewhere it gives nothing.
    let post = person.request(Method::POST, &gate("engine.svc.localhost", "/", &visitor));
    post.header("origin", "https://evil.example").await.assert_status(405);
}

#[tokio::test]
async fn a_visit_ends_with_the_membership_on_every_edge() {
    let world = World::builder().edges(3).start().await;
    let (ada, site) = gated(&world).await;
    eventually(BACKGROUND, "admin has heard of every edge", async || {
        ada.activate("engine", &site.id).await.header("x-svc-propagation").starts_with("3/3")
    })
    .await;
    let bob = world.user("bob").await;
    for round in 0..5 {
        let person = world.person();
        let seen = enter(&person, &site.url, "bob").await;
        let badge = badge_of(&seen);
        for edge in &world.edges {
            edge.get(&site.url).header("cookie", &badge).await.assert_body(200, "secret home");
        }
        let left = leave(&ada, "bob").await;
        assert!(left.header("x-svc-propagation").starts_with("3/3"), "{:?}", left.headers);
        for edge in &world.edges {
            edge.get(&site.url).header("cookie", &badge).await.assert_status(401);
        }
        let told = person.visit(&site.url).await;
        assert_eq!(told.answer.status, 403, "round {round}");
        told.assert_says("Members only");
        // The badge from before is as good as the membership: it comes to life with it, on every edge at once.
        let joined = join(&ada, &bob).await;
        assert!(joined.header("x-svc-propagation").starts_with("3/3"), "{:?}", joined.headers);
        for edge in &world.edges {
            edge.get(&site.url).header("cookie", &badge).await.assert_body(200, "secret home");
        }
    }
}

fn badge_of(page: &Page) -> String {
    let cookies = page.cookies_set();
    let badge = cookies.iter().find(|(_, cookie)| cookie.starts_with("__Host-svc-gate=")).expect("no badge");
    badge.1.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_visit_ends_with_the_access_mode_the_owner_and_signing_out_everywhere() {
    let world = World::start().await;
    let (ada, site) = gated(&world).await;
    let person = world.person();
    let badge = badge_of(&enter(&person, &site.url, "bob").await);
    let status = async |badge: &str| world.edge().get(&site.url).header("cookie", badge).await.status.as_u16();
    assert_eq!(status(&badge).await, 200);
    ada.put("/projects/engine/access").json(&json!({ "mode": "password", "password": "hunter22" })).await.ok();
    assert_eq!(status(&badge).await, 401);
    ada.put("/projects/engine/access").json(&json!({ "mode": "org" })).await.ok();
    assert_eq!(status(&badge).await, 401, "an old badge comes to life again");

    let badge = badge_of(&person.visit(&site.url).await);
    assert_eq!(status(&badge).await, 200);
    let home = person.visit(&world.console_url("/")).await;
    person.fill_nth(&home, 1, &[]).await.assert_says("Sign in");
    assert_eq!(status(&badge).await, 401, "signed out everywhere");

    // Another org's members are other people.
    let badge = badge_of(&enter(&world.person(), &site.url, "bob").await);
    assert_eq!(status(&badge).await, 200);
    ada.create_org("others").await;
    ada.post("/projects/engine/transfer").json(&json!({ "org": "others" })).await.ok();
    assert_eq!(status(&badge).await, 401);
}

#[tokio::test]
async fn without_postgres_members_who_are_known_stay_and_nobody_else_gets_in() {
    let world = World::start().await;
    let (_, site) = gated(&world).await;
    let known = badge_of(&enter(&world.person(), &site.url, "bob").await);
    world.edge().get(&site.url).header("cookie", &known).await.assert_body(200, "secret home");
    world.stop_postgres().await;
    world.edge().get(&site.url).header("cookie", &known).await.assert_body(200, "secret home");
    world.edge().navigate(&site.url).await.assert_status(302);
    let ticket = format!("{}/.svc/enter?ticket={}", site.url, "A".repeat(43));
    let visitor = format!("__Host-svc-visitor={}", "A".repeat(43));
    world.edge().navigate(&ticket).header("cookie", visitor).await.assert_status(503);
    world.start_postgres().await;
    eventually(Duration::from_secs(30), "tickets are looked up again", async || {
        world.edge().navigate(&ticket).header("cookie", format!("__Host-svc-visitor={}", "A".repeat(43))).await.status
            == 403
    })
    .await;
}

#[tokio::test]
async fn an_edge_that_knows_nobody_lets_nobody_in_without_postgres() {
    let mut world = World::start().await;
    let (_, site) = gated(&world).await;
    let badge = badge_of(&enter(&world.person(), &site.url, "bob").await);
    world.edges[0].process.kill();
    world.restart_edge(0).await;
    // The site is known, its members are not.
    world.edge().navigate(&site.url).await.assert_status(302);
    world.stop_postgres().await;
    world.edge().get(&site.url).header("cookie", &badge).await.assert_status(503);
    world.start_postgres().await;
    eventually(BACKGROUND, "the edge asks again", async || {
        world.edge().get(&site.url).header("cookie", &badge).await.status == 200
    })
    .await;
}
