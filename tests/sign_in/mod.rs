//! Signing in on the web: the console's pages, sessions, and what a session may ask of the API.

mod code_host;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    BACKGROUND,
    stubs::codehost::{CLIENT_ID, CodeHost, Step, web::CLIENT_SECRET},
    world::{
        OPERATOR_SECRET, Site, World, eventually,
        person::{Page, Person},
    },
};

const SESSION: &str = "__Host-svc-session=";

pub async fn github() -> (CodeHost, World) {
    let host = CodeHost::start().await;
    let world = World::builder()
        .set("CODE_HOST__KIND", "github")
        .set("CODE_HOST__WEB_URL", &host.url)
        .set("CODE_HOST__API_URL", &host.url)
        .set("CODE_HOST__CLIENT_ID", CLIENT_ID)
        .set("CODE_HOST__CLIENT_SECRET", CLIENT_SECRET)
        .start()
        .await;
    host.set(Step::Approved);
    (host, world)
}

/// From the sign-in page to the code host's question.
async fn leave_for_github(world: &World, person: &Person, back: &str) -> Page {
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("return_to", back).finish();
    person.visit(&world.console_url(&format!("/sign-in/code-host?{query}"))).await
}

/// What the person says there.
async fn say(person: &Person, question: &Page, yes: bool) -> Page {
    person.press(question, 0, &[], if yes { "1" } else { "0" }).await
}

async fn login(person: &Person) -> Option<String> {
    let me = person.api(Method::GET, "/me").await;
    if me.status == 401 {
        me.assert_error(401, "unauthorized");
        return None;
    }
    me.ok()["vcs_login"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_person_signs_in_looks_around_and_signs_out() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("engine")).await;
    let person = world.person();
    person.visit(&world.console_url("/")).await.assert_says("Sign in");
    assert_eq!(login(&person).await, None);

    let home = person.sign_in("Ada").await;
    home.assert_at(200, &world.console_url("/")).assert_says("Hello, ada").assert_says(&world.site_url("engine"));
    let cookies = home.cookies_set();
    let (host, cookie) = &cookies[0];
    assert_eq!((cookies.len(), &**host), (1, "app.svc.localhost"));
    assert!(cookie.starts_with(SESSION), "{cookie}");
    for wanted in ["; Path=/", "; Secure", "; HttpOnly", "; SameSite=Lax"] {
        assert!(cookie.contains(wanted), "{wanted} is missing: {cookie}");
    }
    assert!(!cookie.to_ascii_lowercase().contains("domain"), "{cookie}");
    assert_eq!(home.answer.header("cache-control"), "no-store");
    assert_eq!(login(&person).await.as_deref(), Some("ada"));
    // Who is signed in is not asked again.
    person.visit(&world.console_url("/sign-in")).await.assert_at(200, &world.console_url("/"));

    let out = person.fill(&home, &[]).await;
    out.assert_at(200, &world.console_url("/")).assert_says("Sign in");
    assert!(out.cookies_set()[0].1.contains("; Max-Age=0"));
    assert_eq!(login(&person).await, None);
    assert_eq!(world.sql_number("SELECT count(*) FROM sessions").await, 0);
}

#[tokio::test]
async fn the_session_a_browser_had_before_ends_with_the_new_one() {
    let world = World::start().await;
    let person = world.person();
    person.sign_in("ada").await;
    let page = person.visit(&world.console_url("/sign-in?switch=1")).await;
    person.fill(&page, &[("login", "bob"), ("password", OPERATOR_SECRET)]).await.assert_says("Hello, bob");
    assert_eq!(world.sql_number("SELECT count(*) FROM sessions").await, 1);
}

#[tokio::test]
async fn only_the_operators_secret_and_the_consoles_own_form_sign_anybody_in() {
    let world = World::start().await;
    let person = world.person();
    let page = person.visit(&world.console_url("/sign-in")).await;
    let refused = person.fill(&page, &[("login", "ada"), ("password", "a guess")]).await;
    refused.assert_at(403, &world.console_url("/sign-in")).assert_says("secret is wrong");
    let invalid = person.fill(&page, &[("login", "a b"), ("password", OPERATOR_SECRET)]).await;
    assert_eq!(invalid.answer.status, 400);
    // Login CSRF: another site sends the form, with an account of its own.
    let fields = [("login", "mallory"), ("secret", OPERATOR_SECRET), ("return_to", "/")];
    for origin in [None, Some("null"), Some("https://evil.example"), Some("https://evil.svc.localhost")] {
        let mut request = person.request(Method::POST, &world.console_url("/sign-in")).form(&fields);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let answer = request.await.assert_status(403);
        assert!(answer.find_header("set-cookie").is_none(), "{origin:?}");
    }
    assert_eq!(world.sql_number("SELECT count(*) FROM sessions").await, 0);
    assert_eq!(login(&person).await, None);
}

#[tokio::test]
async fn wrong_secrets_are_limited() {
    let world = World::start().await;
    let person = world.person();
    let page = person.visit(&world.console_url("/sign-in")).await;
    for _ in 0..10 {
        let refused = person.fill(&page, &[("login", "ada"), ("password", "a guess")]).await;
        assert_eq!(refused.answer.status, 403);
    }
    let limited = person.fill(&page, &[("login", "ada"), ("password", OPERATOR_SECRET)]).await;
    assert_eq!(limited.answer.status, 429);
}

#[tokio::test]
async fn a_session_speaks_only_for_the_consoles_own_pages() {
    let world = World::start().await;
    let person = world.person();
    person.sign_in("ada").await;
    let console = world.console_url("");
    let url = |path: &str| world.console_url(&format!("/api{path}"));
    let me: Value = person.api(Method::GET, "/me").await.ok();
    assert_eq!((&me["token_kind"], &me["email"]), (&json!("cli"), &json!("ada@localhost")));
    person.request(Method::GET, &url("/me")).header("origin", &console).await.ok();
    let made = person.api(Method::POST, "/projects").json(&json!({ "name": "engine" })).await;
    assert!(made.find_header("access-control-allow-origin").is_none());
    assert_eq!(made.created()["name"], "engine");
    let log = person.api(Method::GET, "/projects/engine/audit").await.ok();
    assert_eq!(log["entries"][0]["actor"], json!({ "kind": "user", "name": "ada", "token": null }));

    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "https://app.svc.localhost"),
        ("origin", "https://engine.svc.localhost"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "none"),
        ("x-nothing", "said"),
    ] {
        person.request(Method::GET, &url("/me")).header(name, value).await.assert_error(401, "unauthorized");
        let body = json!({ "name": "stolen" });
        let post = person.request(Method::POST, &url("/projects")).header(name, value).json(&body);
        let answer = post.await;
        assert!(answer.find_header("access-control-allow-origin").is_none());
        answer.assert_error(401, "unauthorized");
    }
    // What a page says of itself in a field that pages cannot write does not do for a change.
    let body = json!({ "name": "stolen" });
    let said = person.request(Method::POST, &url("/projects")).header("sec-fetch-site", "same-origin").json(&body);
    said.await.assert_error(401, "unauthorized");
    // Preflights of other origins are not answered with a permission.
    let preflight = person.request(Method::OPTIONS, &url("/projects")).header("origin", "https://evil.example");
    let preflight = preflight.header("access-control-request-method", "POST").await;
    assert!(preflight.find_header("access-control-allow-origin").is_none());

    // A token beside the cookie is what counts.
    let bob = world.user("bob").await;
    let both = person.api(Method::GET, "/me").bearer(bob.token.as_deref().unwrap()).await.ok();
    assert_eq!(both["vcs_login"], "bob");
    person.api(Method::GET, "/me").bearer("svc_wrong").await.assert_error(401, "unauthorized");

    // The cookie, wherever else it is taken.
    let signed_in = world.person().sign_in("ada").await;
    let cookie = signed_in.cookies_set()[0].1.split(';').next().unwrap().to_owned();
    for (host, status) in [("https://api.svc.localhost", 401), ("https://engine.svc.localhost", 404)] {
        let answer = world.edge().get(&format!("{host}/me")).header("cookie", &cookie).header("origin", &console).await;
        answer.assert_status(status);
    }
}

#[tokio::test]
async fn a_retry_in_the_console_is_answered_as_before() {
    let world = World::start().await;
    let person = world.person();
    person.sign_in("ada").await;
    let create = || {
        let request = person.api(Method::POST, "/projects").json(&json!({ "name": "engine" }));
        request.header("idempotency-key", "one")
    };
    let (first, second) = (create().await.created(), create().await.created());
    assert_eq!(first, second);
}

#[tokio::test]
async fn sessions_end_by_time_and_by_use() {
    let world = World::start().await;
    let person = world.person();
    person.sign_in("ada").await;
    assert_eq!(world.sql_number("SELECT count(*) FROM sessions WHERE encode(secret_hash, 'hex') <> ''").await, 1);
    // Used a day ago: its use now moves its end on.
    world
        .sql("UPDATE sessions SET last_used_at = now() - interval '1 day', expires_at = now() + interval '1 minute'")
        .await;
    assert_eq!(login(&person).await.as_deref(), Some("ada"));
    let moved = "SELECT count(*) FROM sessions WHERE expires_at > now() + interval '6 days'
                 AND last_used_at > now() - interval '1 minute'";
    assert_eq!(world.sql_number(moved).await, 1);
    // But never beyond its longest life.
    world
        .sql("UPDATE sessions SET last_used_at = now() - interval '1 day', created_at = now() - interval '29 days'")
        .await;
    assert_eq!(login(&person).await.as_deref(), Some("ada"));
    let bounded = "SELECT count(*) FROM sessions WHERE expires_at <= now() + interval '1 day 1 minute'";
    assert_eq!(world.sql_number(bounded).await, 1);
    world.sql("UPDATE sessions SET expires_at = now()").await;
    assert_eq!(login(&person).await, None);
    person.visit(&world.console_url("/")).await.assert_says("Sign in");
}

#[tokio::test]
async fn a_person_ends_other_sessions_one_by_one_and_all_at_once() {
    let world = World::start().await;
    let [desk, phone, mallory] = [world.person(), world.person(), world.person()];
    let theirs = mallory.sign_in("mallory").await;
    phone.sign_in("ada").await;
    let home = desk.sign_in("ada").await;
    home.assert_says("this one, since");
    // Forms of the page: sign out, the phone's session, everywhere.
    let id =
        home.answer.text().split("name=\"session\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(theirs.answer.text().contains("Hello, mallory") && !theirs.answer.text().contains(&id));
    // Somebody else's session is nobody's to end.
    let end = mallory.request(Method::POST, &world.console_url("/sign-out/session"));
    end.header("origin", world.console_url("")).form(&[("session", &id)]).await.assert_status(303);
    assert_eq!(login(&phone).await.as_deref(), Some("ada"));

    desk.fill_nth(&home, 1, &[]).await.assert_at(200, &world.console_url("/"));
    assert_eq!(login(&phone).await, None);
    assert_eq!(login(&desk).await.as_deref(), Some("ada"));

    phone.sign_in("ada").await;
    let home = desk.visit(&world.console_url("/")).await;
    desk.fill_nth(&home, 2, &[]).await.assert_says("Sign in");
    assert_eq!((login(&desk).await, login(&phone).await), (None, None));
    assert_eq!(login(&mallory).await.as_deref(), Some("mallory"));
    // A form from elsewhere ends nothing.
    for path in ["/sign-out", "/sign-out/everywhere", "/sign-out/session"] {
        let foreign = mallory.request(Method::POST, &world.console_url(path)).header("origin", "https://evil.example");
        foreign.form(&[("session", "ses_x")]).await.assert_status(403);
    }
    assert_eq!(login(&mallory).await.as_deref(), Some("mallory"));
}

#[tokio::test]
async fn nobody_is_led_out_of_the_console() {
    let world = World::start().await;
    for back in [
        "https://evil.example/",
        "//evil.example/",
        "///evil.example/",
        "/\\evil.example/",
        "\\\\evil.example/",
        "/\t/evil.example/",
        "/\n/evil.example/",
        "https:evil.example",
        "http:///evil.example",
        "javascript:alert(1)",
        "data:text/html,x",
        "/..//evil.example/",
        "/%2e%2e//evil.example/",
        "/.//evil.example",
        "@evil.example/",
        ".evil.example/",
        "/x\r\nLocation: https://evil.example/",
        "https://app.svc.localhost.evil.example/",
        "https://app.svc.localhost@evil.example/",
        "／／evil.example",
        "/sign-out",
        "/api/me",
    ] {
        let person = world.person();
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("return_to", back).finish();
        let page = person.visit(&world.console_url(&format!("/sign-in?{query}"))).await;
        let home = person.fill(&page, &[("login", "ada"), ("password", OPERATOR_SECRET)]).await;
        home.assert_at(200, &world.console_url("/"));
        // And for whoever is signed in already.
        person.visit(&world.console_url(&format!("/sign-in?{query}"))).await.assert_at(200, &world.console_url("/"));
        // And when the form itself was tampered with.
        let fields = [("login", "ada"), ("secret", OPERATOR_SECRET), ("return_to", back)];
        let sent = person.request(Method::POST, &world.console_url("/sign-in")).header("origin", world.console_url(""));
        sent.form(&fields).await.assert_redirect(303, &world.console_url("/"));
    }
    let person = world.person();
    let page = person.visit(&world.console_url("/sign-in?return_to=%2Fnothing%3Fa%3Db")).await;
    let there = person.fill(&page, &[("login", "ada"), ("password", OPERATOR_SECRET)]).await;
    there.assert_at(404, &world.console_url("/nothing?a=b"));
}

#[tokio::test]
async fn the_console_is_for_https() {
    let world = World::start().await;
    let plain = world.edge().get("http://app.svc.localhost/sign-in?return_to=%2Fx").await;
    assert_eq!(plain.status, 308);
    assert!(plain.header("location").starts_with("https://app.svc.localhost"), "{:?}", plain.headers);
    let served = World::builder().set("EDGE__HTTP_MODE", "serve").start().await;
    let plain = served.edge().get("http://app.svc.localhost/sign-in?return_to=%2Fx").await;
    plain.assert_redirect(308, &served.console_url("/sign-in?return_to=%2Fx"));
}

#[tokio::test]
async fn sessions_and_sign_ins_that_are_over_are_forgotten() {
    let (_host, mut world) = github().await;
    let person = world.person();
    let question = leave_for_github(&world, &person, "/").await;
    say(&person, &question, true).await;
    leave_for_github(&world, &person, "/").await;
    assert_eq!(world.sql_number("SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM sign_ins)").await, 2);
    world.sql("UPDATE sessions SET expires_at = now(); UPDATE sign_ins SET expires_at = now()").await;
    world.restart_admin_later().await;
    eventually(BACKGROUND, "they are forgotten", async || {
        world.sql_number("SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM sign_ins)").await == 0
    })
    .await;
}
