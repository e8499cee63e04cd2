//! The gates and the sign-in in a real browser, which has rules of its own: what cookies it keeps and sends, where a form
//! may lead, what a page may read.

mod custom_domain;
mod invite;

use serde_json::json;

use crate::{
    org_gate::gated,
    sign_in::github,
    world::{
        OPERATOR_SECRET, Site, World,
        browser::{Browser, Cookie},
    },
};

const PASSWORD: &str = "hunter22 & <more>";

/// Signs in on the page that asks for it.
pub(crate) async fn sign_in(browser: &Browser, login: &str) {
    browser.fill("login", login).await;
    browser.fill("secret", OPERATOR_SECRET).await;
    browser.press("Sign in").await;
}

/// Every cookie is for one host alone, out of scripts' reach, over HTTPS only; and these are the hosts' names of them.
fn assert_cookies(cookies: &[Cookie], expected: &[(&str, &str)]) {
    for cookie in cookies {
        assert!(!cookie.domain.starts_with('.') && cookie.path == "/", "{cookie:?}");
        assert!(cookie.secure && cookie.http_only && cookie.same_site == "Lax", "{cookie:?}");
        assert!(cookie.name.starts_with("__Host-svc-"), "{cookie:?}");
    }
    let mut found: Vec<_> = cookies.iter().map(|cookie| (&*cookie.domain, &*cookie.name)).collect();
    let mut expected = expected.to_vec();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

const SESSION: (&str, &str) = ("app.svc.localhost", "__Host-svc-session");
const VISITOR: (&str, &str) = ("engine.svc.localhost", "__Host-svc-visitor");
const BADGE: (&str, &str) = ("engine.svc.localhost", "__Host-svc-gate");

#[tokio::test]
async fn the_password_opens_a_site() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let site = Site::page("<h1>Secret home</h1>").file("deep/page.html", "<h1>Secret page</h1>");
    let url = ada.publish("engine", &site).await.url;
    ada.put("/projects/engine/password").json(&json!({ "password": PASSWORD })).await.ok();
    let browser = world.browser().await;
    let page = format!("{url}/deep/page?x=1#there");
    browser.open(&page).await;
    browser.sees("This site is protected").await;
    browser.picture("password").await;
    browser.fill("password", "wrong").await;
    browser.press("Open the site").await;
    browser.sees("That is not the password").await;
    assert_cookies(&browser.cookies().await, &[]);
    browser.fill("password", PASSWORD).await;
    browser.press("Open the site").await;
    browser.sees("Secret page").await;
    assert_eq!(browser.url().await.path(), "/deep/page");
    assert_cookies(&browser.cookies().await, &[BADGE]);
    browser.open(&url).await;
    browser.sees("Secret home").await;
    assert_eq!(browser.run("return document.cookie").await, "", "no script reads it");
    ada.put("/projects/engine/password").json(&json!({ "password": "another one" })).await.ok();
    browser.open(&url).await;
    browser.sees("This site is protected").await;
    browser.close().await;
}

#[tokio::test]
async fn a_member_signs_in_with_the_local_kind_and_is_out_when_removed() {
    let world = World::start().await;
    let (ada, site) = gated(&world).await;
    let browser = world.browser().await;
    let page = format!("{}/deep/page?x=1", site.url);
    browser.open(&page).await;
    browser.sees("engine.svc.localhost is open to the members").await;
    assert_eq!(browser.url().await.host_str(), Some("app.svc.localhost"));
    browser.picture("sign-in-local").await;
    sign_in(&browser, "bob").await;
    browser.arrives(&page, "secret page").await;
    assert_cookies(&browser.cookies().await, &[SESSION, VISITOR, BADGE]);
    assert_eq!(browser.run("return document.cookie").await, "");

    // Back to where the ticket was, and forth: the visit goes on.
    browser.open(&format!("{}/.svc/enter?ticket=used&return=%2Fdeep%2Fpage", site.url)).await;
    browser.arrives(&format!("{}/deep/page", site.url), "secret page").await;
    // Without its badge, the way in is closed, and the site opens by itself again.
    browser.forget("__Host-svc-gate").await;
    browser.open(&format!("{}/.svc/enter?ticket=used&return=%2Fdeep%2Fpage", site.url)).await;
    browser.sees("This way in is closed").await;
    browser.picture("way-in-closed").await;
    browser.press("Open the site").await;
    browser.arrives(&format!("{}/deep/page", site.url), "secret page").await;
    // What a page of the site asks for comes too; what it asks of the platform does not.
    assert_eq!(browser.run("return (await fetch('/')).status").await, 200);
    let stolen = format!("return (await fetch('{}', {{credentials: 'include'}})).status", world.console_url("/api/me"));
    assert!(browser.run(&stolen).await.as_str().is_some_and(|error| error.contains("TypeError")));
    // Other addresses of the project, without being asked.
    browser.open(&site.permanent_url()).await;
    browser.arrives(&format!("{}/", site.permanent_url()), "secret home").await;

    ada.delete("/orgs/team/members/bob").await.assert_status(200);
    browser.open(&page).await;
    browser.sees("Members only").await;
    browser.sees("You are signed in as bob").await;
    browser.picture("members-only").await;
    // Another account, and straight to the page.
    browser.press("Use another account").await;
    browser.sees("Sign in to show that you are one").await;
    sign_in(&browser, "ada").await;
    browser.arrives(&page, "secret page").await;
    browser.close().await;
}

#[tokio::test]
async fn a_member_signs_in_at_github() {
    let (host, world) = github().await;
    host.sign_in(42, "ada", None);
    let browser = world.browser().await;
    // Whoever signs in first has an account, and then an org and a site.
    browser.open(&world.console_url("/")).await;
    browser.sees("A folder becomes a site").await;
    browser.picture("welcome").await;
    browser.press("Sign in").await;
    browser.sees("Continue with GitHub").await;
    browser.picture("sign-in-github").await;
    browser.press("Continue with GitHub").await;
    browser.sees("Authorize svc").await;
    browser.press("Cancel").await;
    browser.sees("You said no at GitHub").await;
    browser.picture("declined").await;
    browser.press("Try again").await;
    browser.press("Continue with GitHub").await;
    browser.sees("prompt=select_account").await;
    browser.press("Authorize").await;
    browser.arrives(&world.console_url("/"), "Hello, ada").await;
    assert_cookies(&browser.cookies().await, &[SESSION, ("app.svc.localhost", "__Host-svc-sign-in")]);

    // The console's own pages use the API, by cookie; the browser says where they come from.
    let call = |method: &str, path: &str, body: &str| {
        format!(
            "const body = {body}; const answer = await fetch('/api{path}', {{method: '{method}', \
             headers: body ? {{'content-type': 'application/json'}} : {{}}, body: body && JSON.stringify(body)}}); \
             return [answer.status, await answer.json()]"
        )
    };
    // The console's pages forbid themselves scripts and connections: its empty page of the API does not.
    browser.open(&world.console_url("/api/health")).await;
    let me = browser.run(&call("GET", "/me", "null")).await;
    assert_eq!((&me[0], &me[1]["vcs_login"]), (&json!(200), &json!("ada")), "{me}");
    let org = browser.run(&call("POST", "/orgs", "{name: 'team'}")).await;
    assert_eq!(org[0], 201, "{org}");
    let project = browser.run(&call("POST", "/projects", "{name: 'engine', org: 'team'}")).await;
    assert_eq!(project[0], 201, "{project}");
    let secret = browser.run(&call("POST", "/tokens", "{kind: 'cli'}")).await;
    let ada = world.nobody().with_token(secret[1]["token"].as_str().unwrap());
    let site = ada.deploy("engine", &Site::page("<h1>Secret home</h1>")).await;
    ada.put("/projects/engine/access").json(&json!({ "mode": "org" })).await.ok();

    // Signed in: through the gate without a question.
    browser.open(&site.url).await;
    browser.arrives(&format!("{}/", site.url), "Secret home").await;
    // From nothing: through the gate by way of GitHub.
    let fresh = world.browser().await;
    fresh.open(&site.url).await;
    fresh.sees("engine.svc.localhost is open to the members").await;
    fresh.press("Continue with GitHub").await;
    fresh.press("Authorize").await;
    fresh.arrives(&format!("{}/", site.url), "Secret home").await;
    assert_cookies(&fresh.cookies().await, &[SESSION, ("app.svc.localhost", "__Host-svc-sign-in"), VISITOR, BADGE]);
    fresh.open(&world.console_url("/")).await;
    fresh.sees("Hello, ada").await;
    fresh.sees("engine").await;
    fresh.picture("home").await;
    fresh.press("Sign out everywhere").await;
    fresh.sees("A folder becomes a site").await;
    for browser in [&browser, &fresh] {
        browser.open(&site.url).await;
        browser.sees("engine.svc.localhost is open to the members").await;
    }
    browser.close().await;
    fresh.close().await;
}

#[tokio::test]
async fn another_site_can_neither_sign_a_visitor_in_nor_out_nor_act_for_them() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let console = world.console_url("");
    // Same-site to the console, as every hosted site is: only the origin tells them apart.
    let form = |id: &str, action: &str, fields: &[(&str, &str)]| {
        let inputs = fields.iter().map(|(name, value)| format!("<input name=\"{name}\" value=\"{value}\">"));
        let inputs = inputs.collect::<String>();
        format!("<form method=\"post\" action=\"{console}{action}\">{inputs}<button>{id}</button></form>")
    };
    let evil = [
        form("in", "/sign-in", &[("login", "mallory"), ("secret", OPERATOR_SECRET)]),
        form("out", "/sign-out", &[]),
        form("everywhere", "/sign-out/everywhere", &[]),
        form("api", "/api/projects", &[("name", "stolen")]),
    ];
    let site = ada.publish("evil", &Site::page(&evil.concat())).await;
    let browser = world.browser().await;
    browser.open(&world.console_url("/sign-in")).await;
    sign_in(&browser, "ada").await;
    browser.sees("Hello, ada").await;
    browser.picture("home-of-one").await;
    for button in ["in", "out", "everywhere"] {
        browser.open(&site.url).await;
        browser.press(button).await;
        browser.sees("This form was sent from another place").await;
    }
    browser.open(&site.url).await;
    browser.press("api").await;
    browser.sees("unauthorized").await;
    let post = format!(
        "return (await fetch('{console}/api/projects', {{method: 'POST', credentials: 'include', mode: 'no-cors', \
         body: '{{\"name\": \"stolen\"}}', headers: {{'content-type': 'text/plain'}}}})).type"
    );
    browser.open(&site.url).await;
    assert_eq!(browser.run(&post).await, "opaque");
    assert_eq!(ada.get("/projects").await.ok()["projects"].as_array().unwrap().len(), 1);
    browser.open(&world.console_url("/")).await;
    browser.sees("Hello, ada").await;
    browser.close().await;
}
