//! `PUT /projects/:name/access` and `/password`.

use serde_json::{Value, json};

use crate::world::{Actor, Site, World, request::Request};

fn set_access(actor: &Actor, body: &Value) -> Request {
    actor.put("/projects/engine/access").json(body)
}

async fn mode(actor: &Actor) -> Value {
    actor.project("engine").await["access"].clone()
}

#[tokio::test]
async fn a_site_is_gated_and_opened_again() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let site = ada.publish("engine", &Site::page("secret")).await;
    world.edge().get(&site.url).await.assert_body(200, "secret");

    let gated = set_access(&ada, &json!({ "mode": "password", "password": "hunter22" })).await;
    assert!(!gated.header("x-svc-propagation").is_empty());
    assert_eq!(gated.ok(), json!({ "ok": true, "mode": "password" }));
    assert_eq!(mode(&ada).await, json!({ "mode": "password" }));
    for url in [&site.url, &site.permanent_url()] {
        assert!(!world.edge().get(url).await.assert_status(401).text().contains("secret"));
    }

    assert_eq!(set_access(&ada, &json!({ "mode": "public" })).await.ok(), json!({ "ok": true, "mode": "public" }));
    world.edge().get(&site.url).await.assert_body(200, "secret");
    // The stored password is kept for the next time.
    set_access(&ada, &json!({ "mode": "password" })).await.ok();
    world.edge().get(&site.url).await.assert_status(401);
}

#[tokio::test]
async fn a_password_is_set_and_taken_away() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let site = ada.publish("engine", &Site::page("secret")).await;
    let set = ada.put("/projects/engine/password").json(&json!({ "password": "hunter22" })).await;
    assert_eq!(set.ok(), json!({ "ok": true }));
    assert_eq!(mode(&ada).await, json!({ "mode": "password" }));
    world.edge().get(&site.url).await.assert_status(401);
    assert_eq!(ada.delete("/projects/engine/password").await.ok(), json!({ "ok": true }));
    assert_eq!(mode(&ada).await, json!({ "mode": "public" }));
    world.edge().get(&site.url).await.assert_body(200, "secret");
    // There is none: nothing changes.
    assert_eq!(ada.delete("/projects/engine/password").await.ok(), json!({ "ok": true }));
    assert_eq!(mode(&ada).await, json!({ "mode": "public" }));
}

#[tokio::test]
async fn a_password_that_is_taken_away_opens_no_gate_for_members() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    staff.owner.create_project_in(&staff.org, "engine").await;
    let site = staff.owner.deploy("engine", &Site::page("secret")).await;
    staff.owner.put("/projects/engine/password").json(&json!({ "password": "hunter22" })).await.ok();
    set_access(&staff.owner, &json!({ "mode": "org" })).await.ok();
    assert_eq!(staff.owner.delete("/projects/engine/password").await.ok(), json!({ "ok": true }));
    assert_eq!(mode(&staff.owner).await, json!({ "mode": "org" }));
    assert!(!world.edge().get(&site.url).await.text().contains("secret"));
    // The password is gone all the same.
    set_access(&staff.owner, &json!({ "mode": "password" })).await.assert_error(400, "invalid_request");
}

#[tokio::test]
async fn access_has_rules() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let (short, long) = ("x".repeat(3), "x".repeat(129));
    for body in [
        json!({}),
        json!({ "mode": "secret" }),
        json!({ "mode": "Public" }),
        json!({ "mode": null }),
        json!({ "mode": "password" }),
        json!({ "mode": "password", "password": null }),
        json!({ "mode": "password", "password": short }),
        json!({ "mode": "password", "password": long }),
        json!({ "mode": "password", "password": 12345 }),
        json!({ "mode": "org" }),
    ] {
        set_access(&ada, &body).await.assert_error(400, "invalid_request");
    }
    for body in [json!({}), json!({ "password": short }), json!({ "password": long }), json!({ "password": null })] {
        ada.put("/projects/engine/password").json(&body).await.assert_error(400, "invalid_request");
    }
    assert_eq!(mode(&ada).await, json!({ "mode": "public" }));
    for good in ["x".repeat(4), "x".repeat(128), "é".repeat(128), "    ".to_owned()] {
        ada.put("/projects/engine/password").json(&json!({ "password": good })).await.ok();
    }
}

#[tokio::test]
async fn passwords_are_neither_stored_in_clear_nor_shown() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    ada.put("/projects/engine/password").json(&json!({ "password": "correct horse battery" })).await.ok();
    let stored = "SELECT count(*) FROM projects WHERE projects::text LIKE '%correct horse%'";
    assert_eq!(world.sql_number(stored).await, 0);
    let hashed = "SELECT count(*) FROM projects WHERE password_hash LIKE '$argon2id$%'";
    assert_eq!(world.sql_number(hashed).await, 1);
    assert!(!ada.project("engine").await.to_string().contains("argon2"));
}
