//! `/me` and `/tokens`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{
    World,
    answer::{assert_keys, parse_id, parse_secret, parse_timestamp},
};

fn assert_record(record: &Value) {
    assert_keys(record, "id kind label created_at revoked_at monthly_limit_cents month_cents month_microcents");
    parse_id(&record["id"], "tok_");
    parse_timestamp(&record["created_at"]);
}

#[tokio::test]
async fn me_is_the_account_behind_the_token() {
    let world = World::start().await;
    let me = world.user("ada").await.get("/me").await.ok();
    assert_keys(&me, "id vcs_id vcs_login email token_kind token_id org created_at");
    parse_id(&me["id"], "usr_");
    parse_id(&me["token_id"], "tok_");
    parse_timestamp(&me["created_at"]);
    assert_eq!(me["vcs_login"], "ada");
    assert_eq!(me["token_kind"], "cli");
    assert_eq!(me["org"], Value::Null);
}

#[tokio::test]
async fn a_created_token_works_until_it_is_revoked() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let mut created = ada.post("/tokens").json(&json!({ "kind": "cli", "label": "laptop" })).await.created();
    let token = parse_secret(&created.as_object_mut().unwrap().remove("token").unwrap());
    assert_record(&created);
    assert_eq!(created["kind"], "cli");
    assert_eq!(created["label"], "laptop");
    assert_eq!(created["revoked_at"], Value::Null);

    let laptop = ada.with_token(&token);
    laptop.get("/me").await.ok();
    let path = format!("/tokens/{}", created["id"].as_str().unwrap());
    assert_eq!(ada.delete(&path).await.ok(), json!({ "ok": true }));
    laptop.get("/me").await.assert_error(401, "unauthorized");
    ada.delete(&path).await.assert_error(404, "not_found");

    let tokens = ada.get("/tokens").await.ok();
    let revoked = tokens["tokens"].as_array().unwrap().iter().find(|token| token["id"] == created["id"]).unwrap();
    parse_timestamp(&revoked["revoked_at"]);
}

#[tokio::test]
async fn tokens_are_listed_newest_first_without_secrets() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    for label in ["first", "second", "third"] {
        ada.post("/tokens").json(&json!({ "kind": "ai", "label": label })).await.created();
    }
    world.user("eve").await.post("/tokens").json(&json!({ "kind": "cli", "label": "eve's" })).await.created();
    let list = ada.get("/tokens").await.ok();
    assert_keys(&list, "tokens next_cursor");
    assert_eq!(list["next_cursor"], Value::Null);
    let tokens = list["tokens"].as_array().unwrap();
    tokens.iter().for_each(assert_record);
    let labels: Vec<_> = tokens.iter().map(|token| token["label"].as_str().unwrap_or("")).collect();
    assert_eq!(labels[..3], ["third", "second", "first"]);
    assert_eq!(labels.len(), 4, "and the one ada signed in with: {labels:?}");
}

#[tokio::test]
async fn tokens_are_paged() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    for number in 0..4 {
        ada.post("/tokens").json(&json!({ "kind": "cli", "label": number.to_string() })).await.created();
    }
    let mut seen = Vec::new();
    let mut path = "/tokens?limit=2".to_owned();
    loop {
        let page = ada.get(&path).await.ok();
        let tokens = page["tokens"].as_array().unwrap();
        assert!(tokens.len() <= 2);
        seen.extend(tokens.iter().map(|token| token["id"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/tokens?limit=2&cursor={cursor}");
    }
    assert_eq!(seen.len(), 5);
    assert!(seen.is_sorted_by(|newer, older| newer > older), "{seen:?}");
    for query in ["limit=0", "limit=101", "limit=x", "limit=-1", "cursor=%00", "cursor=nonsense"] {
        ada.get(&format!("/tokens?{query}")).await.assert_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn token_creation_has_rules() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    for body in [
        json!({}),
        json!({ "kind": "deploy" }),
        json!({ "kind": "CLI" }),
        json!({ "kind": 1 }),
        json!({ "kind": "cli", "label": 5 }),
        json!({ "kind": "cli", "label": "x".repeat(201) }),
        json!({ "kind": "cli", "label": "a\u{0}b" }),
        json!({ "kind": "cli", "label": "a\nb" }),
        json!({ "kind": "cli", "label": "a\u{202e}b" }),
        json!({ "kind": "cli", "label": "a\u{200b}b" }),
    ] {
        ada.post("/tokens").json(&body).await.assert_error(400, "invalid_request");
    }
    for label in ["x".repeat(200), "é".repeat(200)] {
        let created = ada.post("/tokens").json(&json!({ "kind": "cli", "label": label })).await.created();
        assert_eq!(created["label"], label);
    }
    for (label, stored) in [("  my laptop ", json!("my laptop")), (" \t ", Value::Null), ("", Value::Null)] {
        let created = ada.post("/tokens").json(&json!({ "kind": "cli", "label": label })).await.created();
        assert_eq!(created["label"], stored, "{label:?}");
    }
    let created = ada.post("/tokens").json(&json!({ "kind": "ai", "label": null, "unknown": true })).await.created();
    assert_eq!(created["label"], Value::Null);
}

#[tokio::test]
async fn a_token_is_revoked_by_its_owner_alone() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let created = ada.post("/tokens").json(&json!({ "kind": "cli" })).await.created();
    let path = format!("/tokens/{}", created["id"].as_str().unwrap());
    eve.delete(&path).await.assert_error(404, "not_found");
    for unknown in ["tok_00000000000000000000", "nonsense", "prj_00000000000000000000", "%00", "tok_%20"] {
        ada.delete(&format!("/tokens/{unknown}")).await.assert_error(404, "not_found");
    }
    ada.with_token(&parse_secret(&created["token"])).get("/me").await.ok();
}

#[tokio::test]
async fn secrets_are_stored_as_hashes_only() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let token = ada.token.as_deref().unwrap();
    let hashed = format!("SELECT count(*) FROM tokens WHERE secret_hash = sha256('{token}'::bytea)");
    assert_eq!(world.sql_number(&hashed).await, 1);
    let plain = format!("SELECT count(*) FROM tokens WHERE tokens::text LIKE '%{token}%'");
    assert_eq!(world.sql_number(&plain).await, 0);
}

#[tokio::test]
async fn a_keys_monthly_limit_is_set_shown_and_removed() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let body = json!({ "kind": "ai", "monthly_limit_cents": 500 });
    let key = ada.post("/tokens").json(&body).await.created();
    assert_eq!((&key["monthly_limit_cents"], &key["month_cents"]), (&json!(500), &json!(0)));
    let path = format!("/tokens/{}", key["id"].as_str().unwrap());
    let set =
        async |limit: Value| ada.request(Method::PATCH, &path).json(&json!({ "monthly_limit_cents": limit })).await;
    for limit in [json!(0), json!(100_000_000), json!(null)] {
        let answer = set(limit.clone()).await;
        assert!(!answer.header("x-svc-propagation").is_empty());
        let changed = answer.ok();
        assert_record(&changed);
        assert_eq!((&changed["id"], &changed["monthly_limit_cents"]), (&key["id"], &limit));
        assert_eq!(ada.get("/tokens").await.ok()["tokens"][0]["monthly_limit_cents"], limit);
    }
    for limit in [json!(-1), json!(100_000_001), json!(1.5), json!("5"), json!(9_999_999_999_u64)] {
        let message = set(limit).await.assert_error(400, "invalid_request");
        assert!(message.contains("monthly_limit_cents"), "{message}");
    }
    ada.request(Method::PATCH, &path).json(&json!({})).await.assert_error(400, "invalid_request");
    let limit = json!({ "monthly_limit_cents": 5 });
    eve.request(Method::PATCH, &path).json(&limit).await.assert_error(404, "not_found");

    // Only keys of the gateway cost anything.
    let body = json!({ "kind": "cli", "monthly_limit_cents": 500 });
    let message = ada.post("/tokens").json(&body).await.assert_error(400, "invalid_request");
    assert!(message.contains("`cli`"), "{message}");
    let cli = ada.post("/tokens").json(&json!({ "kind": "cli" })).await.created();
    let cli = format!("/tokens/{}", cli["id"].as_str().unwrap());
    let message = ada.request(Method::PATCH, &cli).json(&limit).await.assert_error(400, "invalid_request");
    assert!(message.contains("`cli`"), "{message}");
    ada.delete(&path).await.ok();
    for gone in [&path, "/tokens/tok_00000000000000000000", "/tokens/nonsense"] {
        ada.request(Method::PATCH, gone).json(&limit).await.assert_error(404, "not_found");
    }
}
