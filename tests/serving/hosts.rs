//! Hosts without a site, sites that are not served, and plain HTTP.

use super::{docs, world_with};
use crate::world::{Site, World};

#[tokio::test]
async fn unknown_hosts_are_404_pages_of_ours() {
    let (world, _) = world_with(docs()).await;
    for host in ["unknown.svc.localhost", "a-b-c.share.localhost", "tmp-0123456789.svc.localhost", "x.svc.localhost"] {
        let answer = world.edge().navigate(&format!("https://{host}/")).await.assert_status(404);
        assert!(answer.header("content-type").starts_with("text/html"), "{host}");
        assert!(!answer.text().contains("root not found"), "{host}");
    }
}

#[tokio::test]
async fn a_suspended_site_is_not_served() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let url = ada.publish("engine", &Site::page("what nobody may see")).await.url;
    world.sql("UPDATE projects SET suspended_at = now()").await;
    let answer = world.edge().get(&url).await.assert_status(403);
    assert!(!answer.text().contains("nobody may see"));
}

#[tokio::test]
async fn plain_http_redirects() {
    let (world, url) = world_with(docs()).await;
    let plain = url.replace("https://", "http://");
    for path in ["/", "/about?x=1", "/nothing"] {
        let answer = world.edge().get(&format!("{plain}{path}")).await;
        answer.assert_redirect(308, &format!("{url}{path}"));
    }
    let secure = world.edge().get(&url).await;
    let hsts = secure.header("strict-transport-security");
    assert!(hsts.contains("max-age="), "{hsts}");
}

#[tokio::test]
async fn plain_http_can_serve() {
    let world = World::builder().set("EDGE__HTTP_MODE", "serve").start().await;
    let ada = world.user("ada").await;
    let url = ada.publish("engine", &Site::page("plain")).await.url;
    let plain = url.replace("https://", "http://");
    let answer = world.edge().get(&plain).await.assert_body(200, "plain");
    assert_eq!(answer.find_header("strict-transport-security"), None);
    ada.put("/projects/engine/password").json(&serde_json::json!({ "password": "hunter22" })).await.ok();
    world.edge().get(&plain).await.assert_redirect(308, &format!("{url}/"));
}
