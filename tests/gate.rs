//! The password gate, as a browser and as a script meet it.

use serde_json::json;

use crate::{
    shares::base64,
    world::{Actor, Site, World, answer::Answer, form::Form},
};

const PASSWORD: &str = "hunter22 & <more>";

async fn gated() -> (World, Actor, String) {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let site =
        Site::page("secret home").file("deep/page.html", "secret page").file("_redirects", "/go /deep/page 302\n");
    let url = ada.publish("engine", &site).await.url;
    set_password(&ada, PASSWORD).await;
    (world, ada, url)
}

async fn set_password(ada: &Actor, password: &str) {
    ada.put("/projects/engine/password").json(&json!({ "password": password })).await.ok();
}

/// Fills the gate's form in, as shown at `url`.
async fn enter(world: &World, url: &str, password: &str) -> Answer {
    let page = world.edge().navigate(url).await.assert_status(401);
    let forms = Form::all(&page.text());
    let form = forms.first().unwrap_or_else(|| panic!("no form: {}", page.text()));
    let fields = form.filled(&[("password", password)], "");
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let base = url::Url::parse(url).unwrap();
    let target = base.join(&form.action).unwrap();
    world.edge().post(target.as_str()).header("origin", base.origin().ascii_serialization()).form(&fields).await
}

fn cookie_of(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn nothing_is_seen_without_the_password() {
    let (world, _, url) = gated().await;
    for path in ["/", "/deep/page", "/nothing", "/go", "/deep/page.html", "/_headers", "/index.html"] {
        let page = world.edge().navigate(&format!("{url}{path}")).await.assert_status(401);
        assert!(page.header("content-type").starts_with("text/html"));
        assert_eq!(page.header("cache-control"), "private, no-store");
        assert!(page.find_header("etag").is_none() && page.find_header("location").is_none());
        assert!(!page.text().contains("secret"));
        assert_eq!(Form::all(&page.text()).len(), 1);
    }
    world.edge().head(&url).await.assert_status(401);
    let conditional = world.edge().get(&url).header("if-none-match", "*").await;
    assert_eq!(conditional.status, 401);
    let ranged = world.edge().get(&url).header("range", "bytes=0-3").await;
    assert_eq!(ranged.status, 401);
}

#[tokio::test]
async fn the_form_opens_the_site_and_leads_back() {
    let (world, _, url) = gated().await;
    let page = format!("{url}/deep/page?x=1");
    let entered = enter(&world, &page, PASSWORD).await.assert_status(303);
    let location = url::Url::parse(&page).unwrap().join(entered.header("location")).unwrap();
    assert_eq!(location.as_str(), page);

    let cookie = entered.header("set-cookie").to_owned();
    let mut parts = cookie.split(';').map(str::trim);
    assert!(parts.next().unwrap().starts_with("__Host-svc-gate="));
    let attributes: Vec<_> = parts.map(str::to_ascii_lowercase).collect();
    for wanted in ["secure", "httponly", "samesite=lax", "path=/"] {
        assert!(attributes.iter().any(|attribute| attribute == wanted), "{wanted} is missing: {cookie}");
    }
    assert!(!attributes.iter().any(|attribute| attribute.starts_with("domain")), "{cookie}");

    let cookie = cookie_of(&entered);
    let seen = world.edge().get(&page).header("cookie", format!("other=1; {cookie}")).await;
    let seen = seen.assert_body(200, "secret page");
    assert_eq!(seen.header("cache-control"), "private, no-store");
    world.edge().get(&format!("{url}/nothing.txt")).header("cookie", &cookie).await.assert_status(404);
}

#[tokio::test]
async fn a_wrong_password_is_told_and_gets_no_cookie() {
    let (world, _, url) = gated().await;
    for wrong in ["wrong", "", " ", "hunter22", "HUNTER22 & <MORE>"] {
        let refused = enter(&world, &url, wrong).await.assert_status(401);
        assert!(refused.find_header("set-cookie").is_none());
        assert_eq!(Form::all(&refused.text()).len(), 1);
    }
}

#[tokio::test]
async fn scripts_use_basic_with_any_name() {
    let (world, _, url) = gated().await;
    for name in ["", "anyone", "a b"] {
        let credentials = format!("Basic {}", base64(&format!("{name}:{PASSWORD}")));
        let seen = world.edge().get(&url).header("authorization", &credentials).await.assert_body(200, "secret home");
        assert_eq!(seen.header("cache-control"), "private, no-store");
        world.edge().get_http1(&url).header("authorization", &credentials).await.assert_body(200, "secret home");
    }
    for wrong in [
        format!("Basic {}", base64("x:wrong")),
        format!("Basic {}", base64(PASSWORD)),
        "Basic !!!".to_owned(),
        "Basic".to_owned(),
        format!("Bearer {PASSWORD}"),
    ] {
        world.edge().get(&url).header("authorization", wrong).await.assert_status(401);
    }
}

#[tokio::test]
async fn a_cookie_is_bound_to_its_site_and_its_password() {
    let (world, ada, url) = gated().await;
    let other = ada.publish("other", &Site::page("other secret")).await.url;
    ada.put("/projects/other/password").json(&json!({ "password": PASSWORD })).await.ok();
    let cookie = cookie_of(&enter(&world, &url, PASSWORD).await.assert_status(303));
    world.edge().get(&url).header("cookie", &cookie).await.assert_body(200, "secret home");
    world.edge().get(&other).header("cookie", &cookie).await.assert_status(401);

    // Any tampering voids it.
    let (name, value) = cookie.split_once('=').unwrap();
    for forged in [
        format!("{name}="),
        format!("{name}=x{value}"),
        format!("{name}={}", &value[..value.len() - 1]),
        format!("{name}={}", value.replace(|c: char| c.is_ascii_digit(), "9")),
        format!("svc-gate={value}"),
    ] {
        if forged != cookie {
            world.edge().get(&url).header("cookie", forged).await.assert_status(401);
        }
    }

    set_password(&ada, "another password").await;
    world.edge().get(&url).header("cookie", &cookie).await.assert_status(401);
    // Not even the old password again brings the old cookie back.
    set_password(&ada, PASSWORD).await;
    world.edge().get(&url).header("cookie", &cookie).await.assert_status(401);
}

#[tokio::test]
async fn guesses_are_limited() {
    let (world, ada, url) = gated().await;
    let other = ada.publish("other", &Site::page("other secret")).await.url;
    ada.put("/projects/other/password").json(&json!({ "password": PASSWORD })).await.ok();
    let guess = |site: &str, password: &str| {
        let credentials = format!("Basic {}", base64(&format!("x:{password}")));
        world.edge().get(site).header("authorization", credentials)
    };
    let mut limited = None;
    for attempt in 0..200 {
        let answer = guess(&url, &format!("guess {attempt}")).await;
        if answer.status == 429 {
            limited = Some(answer);
            break;
        }
        assert_eq!(answer.status, 401);
    }
    let limited = limited.expect("200 guesses were let through");
    assert!(limited.header("retry-after").parse::<u64>().unwrap() >= 1);
    // While limited, the right password is not looked at either: the limit leaks nothing.
    guess(&url, PASSWORD).await.assert_status(429);
    // Another site of the same visitor is not concerned.
    guess(&other, PASSWORD).await.assert_body(200, "other secret");
}

#[tokio::test]
async fn guesses_count_whatever_a_client_says_of_its_address() {
    const HEADERS: [&str; 7] = [
        "x-forwarded-for",
        "forwarded",
        "x-real-ip",
        "x-client-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "x-cluster-client-ip",
    ];
    let (world, _, url) = gated().await;
    let mut statuses = Vec::new();
    for attempt in 0..30 {
        let credentials = format!("Basic {}", base64(&format!("x:guess {attempt}")));
        let request = world.edge().get(&url).header("authorization", credentials);
        let request = HEADERS.iter().fold(request, |request, name| {
            let address = format!("198.51.100.{attempt}");
            request.header(name, if *name == "forwarded" { format!("for={address}") } else { address })
        });
        statuses.push(request.await.status.as_u16());
    }
    // Ten a minute; on a slow machine one or two come back meanwhile.
    let refused = statuses.iter().filter(|status| **status == 429).count();
    assert!(refused >= 10, "{statuses:?}");
}

#[tokio::test]
async fn the_way_back_stays_on_the_site() {
    let (world, _, url) = gated().await;
    for path in ["//evil.example/", "/%2F%2Fevil.example", "/\\evil.example", "/@evil.example"] {
        let page = world.edge().navigate(&format!("{url}{path}")).await;
        let Some(form) = Form::all(&page.text()).into_iter().next() else { continue };
        let mut fields = form.filled(&[("password", PASSWORD)], "");
        for (name, value) in &mut fields {
            if !name.contains("password") {
                *value = "https://evil.example/".to_owned();
            }
        }
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let base = url::Url::parse(&url).unwrap();
        let target = base.join(&form.action).unwrap();
        assert_eq!(target.origin(), base.origin(), "the form is sent elsewhere: {}", form.action);
        let entered = world.edge().post(target.as_str()).form(&fields).await;
        if let Some(location) = entered.find_header("location") {
            assert_eq!(base.join(location).unwrap().origin(), base.origin(), "{location}");
        }
    }
}
