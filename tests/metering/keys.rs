//! Keys: accepted by every edge from the answer of their creation to the answer of their revocation.

use serde_json::json;

use super::{
    served::{completions, numbered, without_limits},
    *,
};

async fn statuses(metered: &Metered, key: &str) -> Vec<u16> {
    let mut statuses = Vec::new();
    for edge in 0..metered.world.edges.len() {
        statuses.push(metered.ask_at(edge, key, &Completion::of(1, 1)).await.status.as_u16());
    }
    statuses
}

#[tokio::test]
async fn a_key_works_from_its_creation_to_its_revocation_at_every_edge() {
    let metered = Metered::start_with(|builder| builder.edges(3)).await;
    eventually(BACKGROUND, "admin has heard of every edge", async || {
        // Revoked again: a person may have so many that work.
        let created = metered.ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
        let id = created["id"].as_str().unwrap();
        let answer = metered.ada.delete(&format!("/tokens/{id}")).await.assert_status(200);
        answer.header("x-svc-propagation").starts_with("3/3")
    })
    .await;
    for _ in 0..5 {
        let created = metered.ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
        let (key, id) = (created["token"].as_str().unwrap(), created["id"].as_str().unwrap());
        assert_eq!(statuses(&metered, key).await, [200; 3]);
        let revoked = metered.ada.delete(&format!("/tokens/{id}")).await.assert_status(200);
        assert!(revoked.header("x-svc-propagation").starts_with("3/3"), "{}", revoked.header("x-svc-propagation"));
        assert_eq!(statuses(&metered, key).await, [401; 3]);
    }
    // Edges do not cache tokens of other kinds.
    let answer = metered.ada.post("/tokens").json(&json!({ "kind": "cli" })).await.assert_status(201);
    assert!(answer.find_header("x-svc-propagation").is_none());
}

#[tokio::test]
async fn a_key_that_was_refused_before_its_creation_works_after_it() {
    let metered = Metered::start_with(|builder| builder.edges(2)).await;
    let secret = format!("svc_{}", "k".repeat(43));
    assert_eq!(statuses(&metered, &secret).await, [401; 2]);
    metered
        .world
        .sql(&format!(
            "INSERT INTO tokens (id, kind, user_id, secret_hash, created_at)
             SELECT 'tok_00000000000000000key', 'ai', id, sha256('{secret}'), now() FROM users"
        ))
        .await;
    assert_eq!(statuses(&metered, &secret).await, [401; 2], "the refusal is cached");
    eventually(BACKGROUND, "both edges have heard of a change", async || {
        // Revoked again: a person may have so many that work.
        let created = metered.ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
        let id = created["id"].as_str().unwrap();
        let answer = metered.ada.delete(&format!("/tokens/{id}")).await.assert_status(200);
        answer.header("x-svc-propagation").starts_with("2/2")
    })
    .await;
    assert_eq!(statuses(&metered, &secret).await, [200; 2]);
}

#[tokio::test]
async fn a_cached_key_works_without_postgres_and_an_uncached_one_is_503() {
    let metered = Metered::start().await;
    let other = new_key(&metered.ada).await;
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    metered.world.stop_postgres().await;
    metered.ask(&Completion::of(2, 1)).await.assert_status(200);
    let refused = metered.ask_at(0, &other, &Completion::of(3, 1)).await.assert_status(503);
    assert!(refused.header("retry-after").parse::<u64>().unwrap() > 0);
    metered.world.start_postgres().await;
    eventually(BACKGROUND, "the other key is read", async || {
        metered.ask_at(0, &other, &Completion::of(4, 1)).await.status == 200
    })
    .await;
    metered.rows_become(3, "NOT estimated AND prompt_tokens IN (1, 2, 4)").await;
    metered.assert_sums().await;
}

#[tokio::test]
async fn an_org_pays_for_its_own_keys() {
    let metered = Metered::start().await;
    metered.ada.create_org("analytical").await;
    let body = json!({ "kind": "ai", "label": "bot" });
    let created = metered.ada.post("/orgs/analytical/tokens").json(&body).await.created();
    let key = created["token"].as_str().unwrap();
    metered.ask_at(0, key, &Completion::of(7, 3)).await.assert_status(200);
    eventually(SEEN_WITHIN, "the org's usage is seen", async || {
        let totals = metered.ada.get("/orgs/analytical/usage/ai").await.ok()["totals"].clone();
        ["requests", "prompt_tokens", "completion_tokens"].map(|count| totals[count].as_u64())
            == [Some(1), Some(7), Some(3)]
    })
    .await;
    assert_eq!(metered.ada.get("/usage/ai").await.ok()["totals"]["requests"], 0);
    let eve = metered.world.user("eve").await;
    eve.get("/orgs/analytical/usage/ai").await.assert_error(404, "not_found");
    let id = created["id"].as_str().unwrap();
    metered.ada.delete(&format!("/orgs/analytical/tokens/{id}")).await.ok();
    metered.ask_at(0, key, &Completion::of(7, 3)).await.assert_status(401);
}

#[tokio::test]
async fn what_is_under_way_is_counted_although_its_key_is_revoked_or_its_org_renamed_or_deleted() {
    let (mut metered, mut received) = Metered::after_one(without_limits).await;
    for org in ["analytical", "difference"] {
        metered.ada.create_org(org).await;
    }
    let (count, mut under_way, mut keys) = (completions(1), Vec::new(), Vec::new());
    for (first, tokens) in [(0, "/tokens"), (count, "/orgs/analytical/tokens"), (2 * count, "/orgs/difference/tokens")]
    {
        let created = metered.ada.post(tokens).json(&json!({ "kind": "ai" })).await.created();
        created["token"].as_str().unwrap().clone_into(&mut metered.key);
        under_way.push(metered.hold(0, (first..first + count).map(|number| numbered(number).held())).await);
        keys.push(created);
    }
    metered.ada.delete(&format!("/tokens/{}", keys[0]["id"].as_str().unwrap())).await.ok();
    let renaming = metered.ada.request(reqwest::Method::PATCH, "/orgs/analytical");
    renaming.json(&json!({ "display_name": "The Engine" })).await.ok();
    metered.ada.delete("/orgs/difference").await.ok();
    let after = Completion::of(2, 2);
    for (key, status) in keys.iter().zip([401, 200, 401]) {
        metered.ask_at(0, key["token"].as_str().unwrap(), &after).await.assert_status(status);
    }
    received.add(&after);
    metered.provider.release();
    for under_way in under_way {
        received.extend(under_way.end().await);
    }
    assert_eq!(received.len(), 2 + 3 * count);
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated, 0);
}
