//! `POST /webhooks/github`: only genuine ones, each once, and what each means.

use serde_json::{Value, json};

use super::scene::{Scene, link};
use crate::{
    stubs::codehost::webhook::{NOTHING, Webhook, sign},
    world::{Actor, World},
};

/// A scene in which `site` is linked to `acme/site`.
async fn linked() -> (Scene, Actor) {
    Scene::start().await.linked().await
}

fn some_push() -> Webhook {
    Webhook::push((70, "acme/site"), "refs/heads/main", NOTHING, &"a".repeat(40), 7)
}

async fn queued(scene: &Scene) -> i64 {
    scene.world.sql_number("SELECT count(*) FROM repo_deploys").await
}

#[tokio::test]
async fn without_the_right_signature_nothing_is_taken() {
    let (scene, _) = linked().await;
    let push = some_push();
    let signed = |signature: String| Webhook { signature, ..push.clone() };
    for signature in [
        String::new(),
        "sha256=".to_owned(),
        push.signature.replacen("sha256=", "sha1=", 1),
        push.signature[..push.signature.len() - 2].to_owned(),
        sign(b"another body"),
        format!("sha256={}", "0".repeat(64)),
    ] {
        scene.deliver(&signed(signature)).await.assert_error(401, "unauthorized");
    }
    let unsigned = scene.world.nobody().post("/webhooks/github").header("x-github-event", "push");
    unsigned.body(push.body.clone()).await.assert_error(401, "unauthorized");
    let changed = Webhook { body: [push.body.clone(), b" ".to_vec()].concat(), ..push.clone() };
    scene.deliver(&changed).await.assert_error(401, "unauthorized");
    assert_eq!(queued(&scene).await, 0);
    assert_eq!(scene.world.sql_number("SELECT count(*) FROM webhook_deliveries").await, 0);
    assert_eq!(scene.deliver(&push).await.ok()["deploys"], 1);
}

#[tokio::test]
async fn a_platform_without_a_secret_takes_none() {
    let world = World::start().await;
    let signed_with_nothing = world.nobody().post("/webhooks/github").header("x-hub-signature-256", sign(b"{}"));
    signed_with_nothing.body("{}").await.assert_error(404, "not_found");
}

#[tokio::test]
async fn what_is_signed_and_odd_is_refused() {
    let scene = Scene::start().await;
    for (event, body) in
        [("push", "{}"), ("push", "[]"), ("push", "payload=%7B%7D"), ("installation", "{\"action\":1}")]
    {
        scene.deliver(&Webhook::of(event, body.into())).await.assert_error(400, "invalid_request");
    }
    let nameless = Webhook { delivery: String::new(), ..some_push() };
    scene.deliver(&nameless).await.assert_error(400, "invalid_request");
    let large = Webhook::of("ping", vec![b' '; 25 * 1024 * 1024 + 1]);
    scene.deliver(&large).await.assert_error(413, "payload_too_large");
    let largest = Webhook::of("ping", vec![b' '; 25 * 1024 * 1024]);
    scene.deliver(&largest).await.ok();
}

#[tokio::test]
async fn pings_and_what_we_do_not_know_are_taken() {
    let scene = Scene::start().await;
    let ping = json!({ "zen": "Keep it logically awesome.", "hook_id": 1, "hook": { "type": "App" } });
    assert_eq!(scene.deliver(&Webhook::new("ping", &ping)).await.ok(), json!({ "ok": true, "deploys": 0 }));
    scene.deliver(&Webhook::new("star", &json!({ "action": "created" }))).await.ok();
}

#[tokio::test]
async fn a_delivery_counts_once_also_at_once_and_under_another_id() {
    let (scene, _) = linked().await;
    scene.host.fail(crate::stubs::codehost::hub::Fault::Status(500));
    let push = some_push();
    let answers = futures_util::future::join_all((0..10).map(|_| scene.deliver(&push))).await;
    let deploys: u64 = answers.into_iter().map(|answer| answer.ok()["deploys"].as_u64().unwrap()).sum();
    assert_eq!(deploys, 1);
    let renamed = Webhook { delivery: "another-id".to_owned(), ..push.clone() };
    assert_eq!(scene.deliver(&renamed).await.ok()["deploys"], 0);
    assert_eq!(scene.world.sql_number("SELECT version FROM repo_deploys").await, 1);
}

#[tokio::test]
async fn only_pushes_to_the_linked_branch_of_the_linked_repository_count() {
    let (scene, _) = linked().await;
    let sha = "a".repeat(40);
    for nothing in [
        Webhook::push((70, "acme/site"), "refs/tags/main", NOTHING, &sha, 7),
        Webhook::push((70, "acme/site"), "refs/heads/other", NOTHING, &sha, 7),
        Webhook::push((70, "acme/site"), "refs/heads/main", &sha, NOTHING, 7),
        // A new repository that took the name over, and another installation of ours.
        Webhook::push((999, "acme/site"), "refs/heads/main", NOTHING, &sha, 7),
        Webhook::push((70, "acme/site"), "refs/heads/main", NOTHING, &sha, 8),
    ] {
        assert_eq!(scene.deliver(&nothing).await.ok(), json!({ "ok": true, "deploys": 0 }));
    }
    assert_eq!(queued(&scene).await, 0);
}

#[tokio::test]
async fn links_end_with_what_they_rest_on() {
    let (scene, mona) = linked().await;
    scene.org(&mona, "team", &[]).await;
    mona.post("/orgs/team/installations").json(&json!({ "installation_id": 7 })).await.created();
    let relink = async || {
        mona.post("/projects/site/repo").json(&link("acme/site")).await.ok();
    };
    let repo = async || mona.project("site").await["repo"].clone();
    let removed = |ids: &[i64]| {
        let ids: Vec<Value> =
            ids.iter().map(|id| json!({ "id": id, "name": "site", "full_name": "acme/site" })).collect();
        json!({ "action": "removed", "installation": { "id": 7 }, "repositories_removed": ids, "n": rand::random::<u32>() })
    };
    scene.deliver(&Webhook::new("installation_repositories", &removed(&[71]))).await.ok();
    assert_eq!(repo().await["repo"], "acme/site");
    scene.deliver(&Webhook::new("installation_repositories", &removed(&[71, 70]))).await.ok();
    assert_eq!(repo().await, Value::Null);

    relink().await;
    let renamed = json!({ "action": "renamed", "repository": { "id": 70, "full_name": "acme/renamed" } });
    scene.deliver(&Webhook::new("repository", &renamed)).await.ok();
    assert_eq!(repo().await["repo"], "acme/renamed");
    let deleted = json!({ "action": "deleted", "repository": { "id": 70, "full_name": "acme/renamed" } });
    scene.deliver(&Webhook::new("repository", &deleted)).await.ok();
    assert_eq!(repo().await, Value::Null);

    relink().await;
    scene.deliver(&Webhook::installation("suspend", 7)).await.ok();
    assert_eq!(scene.deliver(&some_push()).await.ok()["deploys"], 0, "nothing is read through a suspended one");
    scene.deliver(&Webhook::installation("unsuspend", 7)).await.ok();
    assert_eq!(repo().await["repo"], "acme/site");
    scene.deliver(&Webhook::installation("deleted", 7)).await.ok();
    assert_eq!(repo().await, Value::Null);
    assert_eq!(mona.get("/orgs/team/installations").await.ok(), json!({ "installations": [] }));
    let audit = mona.get("/projects/site/audit").await.ok().to_string();
    assert_eq!(audit.matches("repo.unlink").count(), 3, "{audit}");
}
