//! The password gate at a custom domain. The organization's is in `org_gate`.

use serde_json::json;

use super::{DOMAIN, published};
use crate::world::{Actor, Site, World, answer::Answer, form::Form};

const PASSWORD: &str = "hunter22 & <more>";

async fn protect(ada: &Actor, project: &str) {
    ada.put(&format!("/projects/{project}/password")).json(&json!({ "password": PASSWORD })).await.ok();
}

/// Fills the gate's form in, as shown at `url`.
async fn enter(world: &World, url: &str) -> Answer {
    let page = world.edge().navigate(url).await.assert_status(401);
    let fields = Form::all(&page.text())[0].filled(&[("password", PASSWORD)], "");
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let base = url::Url::parse(url).unwrap();
    let target = base.join("/.svc/gate").unwrap();
    world.edge().post(target.as_str()).header("origin", base.origin().ascii_serialization()).form(&fields).await
}

fn cookie_of(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn the_password_opens_the_domain_it_was_given_at() {
    let (world, ada, url) = published(&Site::page("secret").file("deep/page.html", "secret page")).await;
    let own = world.site_url("engine");
    protect(&ada, "engine").await;
    let entered = enter(&world, &format!("{url}/deep/page?x=1")).await.assert_redirect(303, "/deep/page?x=1");
    let set = entered.header("set-cookie").to_ascii_lowercase();
    assert!(set.starts_with("__host-svc-gate=") && !set.contains("domain") && set.contains("; secure"), "{set}");
    let badge = cookie_of(&entered);
    let seen = async |url: &str, badge: &str| world.edge().get(url).header("cookie", badge).await;
    let inside = seen(&format!("{url}/deep/page"), &badge).await.assert_body(200, "secret page");
    assert_eq!(inside.header("cache-control"), "private, no-store");
    // Collected by whoever the domain is pointed at one day, it opens no other address of the project; nor the other way.
    seen(&own, &badge).await.assert_status(401);
    let at_home = cookie_of(&enter(&world, &own).await);
    seen(&own, &at_home).await.assert_body(200, "secret");
    seen(&url, &at_home).await.assert_status(401);
    // Plain HTTP asks for nothing and takes nothing.
    let plain = world.edge().get(&format!("http://{DOMAIN}/deep/page")).header("cookie", &badge).await;
    plain.assert_redirect(308, &format!("{url}/deep/page"));

    ada.detach("engine", DOMAIN).await;
    seen(&url, &badge).await.assert_status(404);
    // Another project with the very same password is another site.
    ada.publish("other", &Site::page("other secret")).await;
    protect(&ada, "other").await;
    ada.attach("other", DOMAIN).await;
    seen(&url, &badge).await.assert_status(401);
    ada.detach("other", DOMAIN).await;
    ada.attach("engine", DOMAIN).await;
    seen(&url, &badge).await.assert_body(200, "secret");
    ada.put("/projects/engine/password").json(&json!({ "password": "another" })).await.ok();
    seen(&url, &badge).await.assert_status(401);
}
