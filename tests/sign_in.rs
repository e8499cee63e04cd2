//! Signing in on the web: the console's pages, sessions, and what a session may ask of the API.

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

/// Where the code host would lead the person who says yes, without going there.
async fn callback(person: &Person, question: &Page) -> String {
    let forms = crate::world::form::Form::all(&question.answer.text());
    let fields = forms[0].filled(&[], "1");
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let target = question.url.join(&forms[0].action).unwrap();
    person.request(Method::POST, target.as_str()).form(&fields).await.assert_status(303).header("location").to_owned()
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
    for host in ["https://api.svc.localhost", "https://engine.svc.localhost"] {
        let answer = world.edge().get(&format!("{host}/me")).header("cookie", &cookie).header("origin", &console).await;
        assert!([401, 404].contains(&answer.status.as_u16()), "{host}: {}", answer.status);
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
async fn github_signs_a_person_in() {
    let (host, world) = github().await;
    host.sign_in(42, "ada", None);
    let person = world.person();
    person.visit(&world.console_url("/sign-in")).await.assert_says("Continue with GitHub");
    let question = leave_for_github(&world, &person, "/").await;
    question.assert_says("Authorize svc").assert_says("prompt=<");
    let (_, cookie) = &question.cookies_set()[0];
    assert!(
        cookie.starts_with("__Host-svc-sign-in=") && cookie.contains("; Secure; HttpOnly; SameSite=Lax"),
        "{cookie}"
    );
    let home = say(&person, &question, true).await;
    home.assert_at(200, &world.console_url("/")).assert_says("Hello, ada").assert_says("ada@github.example");
    let set: Vec<_> = home.cookies_set().into_iter().map(|(_, cookie)| cookie).collect();
    assert!(set.iter().any(|cookie| cookie.starts_with(SESSION)), "{set:?}");
    assert_eq!(login(&person).await.as_deref(), Some("ada"));
    assert_eq!(world.sql_number("SELECT count(*) FROM sign_ins").await, 0);
    // The device page, and with it the operator's secret, is the local kind's alone.
    let form = person.request(Method::POST, &world.console_url("/sign-in")).header("origin", world.console_url(""));
    form.form(&[("login", "mallory"), ("secret", CLIENT_SECRET)]).await.assert_status(404);
    let switching = person.visit(&world.console_url("/sign-in/code-host?switch=1")).await;
    switching.assert_says("prompt=select_account");
}

#[tokio::test]
async fn without_the_applications_secret_the_page_says_so() {
    let world = World::builder().set("CODE_HOST__KIND", "github").set("CODE_HOST__CLIENT_ID", CLIENT_ID);
    let world = world.set("CODE_HOST__CLIENT_SECRET", "").start().await;
    let page = world.person().visit(&world.console_url("/sign-in")).await;
    assert_eq!(page.answer.status, 503);
    page.assert_says("svc login");
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

#[tokio::test]
async fn whoever_says_no_at_github_is_not_signed_in() {
    let (_host, world) = github().await;
    let person = world.person();
    let question = leave_for_github(&world, &person, "/").await;
    let page = say(&person, &question, false).await;
    assert_eq!(page.answer.status, 403);
    page.assert_says("You said no at GitHub").assert_says("Try again");
    assert_eq!(login(&person).await, None);
    assert_eq!(world.sql_number("SELECT count(*) FROM sign_ins").await, 0);
}

#[tokio::test]
async fn a_return_from_github_counts_once_in_the_browser_that_left() {
    let (_host, world) = github().await;
    let (person, other) = (world.person(), world.person());
    // Login CSRF: a stranger's return, opened in this browser.
    let question = leave_for_github(&world, &other, "/").await;
    let theirs = callback(&other, &question).await;
    let tricked = person.visit(&theirs).await;
    assert_eq!(tricked.answer.status, 400);
    tricked.assert_says("Please sign in again");
    assert_eq!(login(&person).await, None);
    // Presented once, it is worth nothing to the stranger either.
    assert_eq!(other.visit(&theirs).await.answer.status, 400);
    // The same with a cookie of another sign-in.
    leave_for_github(&world, &person, "/").await;
    let question = leave_for_github(&world, &other, "/").await;
    assert_eq!(person.visit(&callback(&other, &question).await).await.answer.status, 400);

    // Used twice.
    let question = leave_for_github(&world, &person, "/").await;
    let back = callback(&person, &question).await;
    person.visit(&back).await.assert_says("Hello, octocat");
    assert_eq!(person.visit(&back).await.answer.status, 400);
    // Too late.
    let late = world.person();
    let question = leave_for_github(&world, &late, "/").await;
    let back = callback(&late, &question).await;
    world.sql("UPDATE sign_ins SET expires_at = now()").await;
    assert_eq!(late.visit(&back).await.answer.status, 400);
    // Another code, or another state.
    let question = leave_for_github(&world, &late, "/").await;
    let back: url::Url = callback(&late, &question).await.parse().unwrap();
    let state = back.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    let forged = late.visit(&world.console_url(&format!("/sign-in/callback?code=made-up&state={state}"))).await;
    assert_eq!(forged.answer.status, 400);
    for query in ["", "?code=x", "?state=", "?state=%2F&code=x", &format!("?code=x&state={}", "A".repeat(43))] {
        let answer = late.visit(&world.console_url(&format!("/sign-in/callback{query}"))).await.answer;
        assert_eq!(answer.status, 400, "{query}");
    }
    assert_eq!(login(&late).await, None);
    // The code of one sign-in with the state of another: the verifier does not fit.
    let [one, two] = [leave_for_github(&world, &late, "/").await, leave_for_github(&world, &late, "/").await];
    let [one, two] =
        [callback(&late, &one).await, callback(&late, &two).await].map(|url| url.parse::<url::Url>().unwrap());
    let value = |url: &url::Url, name: &str| url.query_pairs().find(|(n, _)| n == name).unwrap().1.into_owned();
    let mixed = format!("/sign-in/callback?code={}&state={}", value(&one, "code"), value(&two, "state"));
    assert_eq!(late.visit(&world.console_url(&mixed)).await.answer.status, 400);
    assert_eq!(login(&late).await, None);
}

#[tokio::test]
async fn several_tabs_sign_in_at_once() {
    let (_host, world) = github().await;
    let person = world.person();
    let one = leave_for_github(&world, &person, "/one").await;
    let two = leave_for_github(&world, &person, "/two").await;
    let one = say(&person, &one, true).await;
    one.assert_at(404, &world.console_url("/one"));
    say(&person, &two, true).await.assert_at(404, &world.console_url("/two"));
    assert_eq!(login(&person).await.as_deref(), Some("octocat"));
    assert_eq!(world.sql_number("SELECT count(*) FROM sessions").await, 1);
}

#[tokio::test]
async fn github_in_trouble_is_said_kindly() {
    let (host, world) = github().await;
    let person = world.person();
    for step in [Step::Broken, Step::Garbage] {
        host.set(Step::Approved);
        let question = leave_for_github(&world, &person, "/").await;
        let back = callback(&person, &question).await;
        host.set(step);
        let page = person.visit(&back).await;
        assert_eq!(page.answer.status, 502);
        page.assert_says("The code host does not answer as it should");
    }
    assert_eq!(login(&person).await, None);
}
