//! Open tabs: a fingerprinted asset is served after the deployment that brought it was replaced.

use serde_json::json;

use crate::world::{Actor, Site, World};

const OLD_ASSET: &str = "/assets/app-5d41402abc4b.js";

/// `engine` with an old deployment that has `OLD_ASSET`, and a live one that has not.
async fn redeployed() -> (World, Actor, String) {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let names = format!("<script src={OLD_ASSET}></script><a href=/files/a-5d41402abc4b.pdf>, /assets/plain.js");
    let old =
        Site::page("old").file(&OLD_ASSET[1..], "old code").file("assets/plain.js", "plain").file("x.html", names);
    let old = old.file("files/a-5d41402abc4b.pdf", "old report").file("files/a1234567.pdf", "old secret");
    let url = ada.publish("engine", &old).await.url;
    ada.deploy("engine", &Site::page("new").file("assets/app-7d793037a076.js", "new code")).await;
    (world, ada, url)
}

#[tokio::test]
async fn a_fingerprinted_asset_of_a_recent_deployment_is_served() {
    let (world, _, url) = redeployed().await;
    world.edge().get(&url).await.assert_body(200, "new");
    let asset = world.edge().get(&format!("{url}{OLD_ASSET}")).await.assert_body(200, "old code");
    assert_eq!(asset.header("cache-control"), "public, max-age=31536000, immutable");
    assert!(asset.header("content-type").starts_with("text/javascript"));
    // Only what carries its content's hash in its name can be lent.
    world.edge().get(&format!("{url}/assets/plain.js")).await.assert_status(404);
    world.edge().get(&format!("{url}/assets/app-000000000000.js")).await.assert_status(404);
    // A document is opened, not loaded: what was taken off a site is gone.
    for document in ["/files/a-5d41402abc4b.pdf", "/files/a1234567.pdf", "/x.html"] {
        world.edge().get(&format!("{url}{document}")).await.assert_status(404);
    }
    let opened = world.edge().get(&format!("{url}{OLD_ASSET}")).header("sec-fetch-dest", "document").await;
    opened.assert_status(404);
}

#[tokio::test]
async fn nothing_is_lent_across_a_change_of_access() {
    let (world, ada, url) = redeployed().await;
    ada.put("/projects/engine/password").json(&json!({ "password": "hunter22" })).await.ok();
    world.edge().get(&format!("{url}{OLD_ASSET}")).await.assert_status(401);
    ada.delete("/projects/engine/password").await.ok();
    world.edge().get(&url).await.assert_body(200, "new");
    world.edge().get(&format!("{url}{OLD_ASSET}")).await.assert_status(404);
}

#[tokio::test]
async fn nothing_is_lent_after_seven_days() {
    let (world, _, url) = redeployed().await;
    world.sql("UPDATE deployments SET superseded_at = superseded_at - interval '8 days'").await;
    world.edge().get(&format!("{url}{OLD_ASSET}")).await.assert_status(404);
}

#[tokio::test]
async fn nothing_is_lent_from_before_the_last_ten() {
    let (world, ada, url) = redeployed().await;
    for number in 0..9 {
        ada.deploy("engine", &Site::page(&number.to_string())).await;
    }
    world.edge().get(&format!("{url}{OLD_ASSET}")).await.assert_body(200, "old code");
    for number in 0..2 {
        ada.deploy("engine", &Site::page(&number.to_string())).await;
    }
    world.edge().get(&format!("{url}{OLD_ASSET}")).await.assert_status(404);
}

#[tokio::test]
async fn a_deleted_deployment_lends_nothing() {
    let (world, ada, url) = redeployed().await;
    world.edge().get(&format!("{url}{OLD_ASSET}")).await.assert_body(200, "old code");
    let detail = ada.project("engine").await;
    let old = detail["deployments"][1]["id"].as_str().unwrap();
    ada.delete(&format!("/projects/engine/deployments/{old}")).await.ok();
    world.edge().get(&format!("{url}{OLD_ASSET}")).await.assert_status(404);
}

#[tokio::test]
async fn a_permanent_address_serves_its_own_files_only() {
    let (world, ada, _) = redeployed().await;
    let detail = ada.project("engine").await;
    let new = detail["deployments"][0]["url"].as_str().unwrap();
    world.edge().get(&format!("{new}{OLD_ASSET}")).await.assert_status(404);
}
