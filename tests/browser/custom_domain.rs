//! At a hostname of the owner's, which is another site than the console's for the browser: what is sent along from one to
//! the other is what top-level navigations carry, and nothing else.

use serde_json::json;

use super::{PASSWORD, SESSION, assert_cookies, sign_in};
use crate::{
    org_gate::custom_domains::{DOMAIN, gated_at_domain},
    world::{Site, World},
};

const VISITOR: (&str, &str) = (DOMAIN, "__Host-svc-visitor");
const BADGE: (&str, &str) = (DOMAIN, "__Host-svc-gate");

#[tokio::test]
async fn a_member_passes_the_gate_of_a_custom_domain_and_is_out_when_it_ends() {
    let world = World::start().await;
    let (ada, site, url) = gated_at_domain(&world).await;
    let browser = world.browser().await;
    let page = format!("{url}/deep/page?x=1");
    browser.open(&page).await;
    browser.sees(&format!("{DOMAIN} is open to the members")).await;
    assert_eq!(browser.url().await.host_str(), Some("app.svc.localhost"));
    browser.picture("sign-in-custom-domain").await;
    sign_in(&browser, "bob").await;
    browser.arrives(&page, "secret page").await;
    assert_cookies(&browser.cookies().await, &[SESSION, VISITOR, BADGE]);
    assert_eq!(browser.run("return document.cookie").await, "", "no script reads it");
    assert_eq!(browser.run("return (await fetch('/')).status").await, 200);
    // The session is the console's: what the domain's pages ask there is asked by nobody, and not answered to them.
    let me = world.console_url("/api/me");
    for mode in ["cors", "no-cors"] {
        let stolen = format!(
            "const answer = await fetch('{me}', {{credentials: 'include', mode: '{mode}'}}); return answer.type + answer.status"
        );
        let got = browser.run(&stolen).await;
        assert!(got.as_str().is_some_and(|got| got.contains("TypeError") || got == "opaque0"), "{mode}: {got}");
    }
    // A used ticket leads nowhere without the badge.
    browser.forget("__Host-svc-gate").await;
    browser.open(&format!("{url}/.svc/enter?ticket=used&return=%2Fdeep%2Fpage")).await;
    browser.sees("This way in is closed").await;
    browser.press("Open the site").await;
    browser.arrives(&format!("{url}/deep/page"), "secret page").await;
    // The project's own address: signed in already, so without a question, and with cookies of its own.
    browser.open(&site.url).await;
    browser.arrives(&format!("{}/", site.url), "secret home").await;

    ada.delete("/orgs/team/members/bob").await.assert_status(200);
    browser.open(&page).await;
    browser.sees("Members only").await;
    browser.sees(DOMAIN).await;
    browser.press("Use another account").await;
    browser.sees("Sign in to show that you are one").await;
    sign_in(&browser, "ada").await;
    browser.arrives(&page, "secret page").await;

    ada.detach("engine", DOMAIN).await;
    browser.open(&page).await;
    browser.sees("No site here").await;
    browser.picture("detached-domain").await;
    assert_eq!(browser.url().await.as_str(), page, "nobody is led anywhere");
    browser.close().await;
}

#[tokio::test]
async fn the_password_opens_a_custom_domain() {
    let world = World::start().await;
    world.certify(&[DOMAIN]).await;
    let ada = world.user("ada").await;
    let site = Site::page("<h1>Secret home</h1>").file("deep/page.html", "<h1>Secret page</h1>");
    ada.publish("engine", &site).await;
    ada.put("/projects/engine/password").json(&json!({ "password": PASSWORD })).await.ok();
    ada.attach("engine", DOMAIN).await;
    let url = world.domain_url(DOMAIN);
    let browser = world.browser().await;
    browser.open(&format!("{url}/deep/page?x=1")).await;
    browser.sees("This site is protected").await;
    browser.fill("password", PASSWORD).await;
    browser.press("Open the site").await;
    browser.arrives(&format!("{url}/deep/page?x=1"), "Secret page").await;
    assert_cookies(&browser.cookies().await, &[BADGE]);
    // At the project's own address it is asked for again.
    browser.open(&world.site_url("engine")).await;
    browser.sees("This site is protected").await;
    browser.close().await;
}
