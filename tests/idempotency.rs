//! `Idempotency-Key` on any POST.

use std::time::Duration;

use db::upkeep::idempotency::{self, ClaimHorizon, KeyClaim};
use domain::{Clock, Timestamp};
use futures_util::future::join_all;
use serde_json::json;

use crate::world::{Actor, Site, World, answer::Answer};

async fn create(actor: &Actor, key: &str, name: &str) -> Answer {
    actor.post("/projects").header("idempotency-key", key).json(&json!({ "name": name })).await
}

#[tokio::test]
async fn the_same_request_gets_the_first_answer_again() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let first = create(&ada, "key-1", "engine").await.created();
    let second = create(&ada, "key-1", "engine").await.created();
    assert_eq!(first, second);
    create(&ada, "key-2", "engine").await.assert_error(409, "name_taken");
    // A refusal is an answer too.
    create(&ada, "key-2", "engine").await.assert_error(409, "name_taken");
}

#[tokio::test]
async fn a_key_with_another_body_or_path_conflicts() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    create(&ada, "key-1", "engine").await.created();
    create(&ada, "key-1", "motor").await.assert_error(409, "idempotency_conflict");
    ada.get("/projects/motor").await.assert_error(404, "not_found");
}

#[tokio::test]
async fn a_key_belongs_to_its_caller() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    create(&ada, "key-1", "engine").await.created();
    create(&eve, "key-1", "motor").await.created();
    create(&eve, "key-1", "engine").await.assert_error(409, "idempotency_conflict");
}

#[tokio::test]
async fn a_created_secret_is_given_again_but_lies_sealed() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let mint = || ada.post("/tokens").header("idempotency-key", "mint").json(&json!({ "kind": "cli" }));
    let first = mint().await.created();
    assert_eq!(first, mint().await.created());
    let token = first["token"].as_str().unwrap();
    let leaked = format!("SELECT count(*) FROM idempotency_keys WHERE position('{token}'::bytea IN sealed_answer) > 0");
    assert_eq!(world.sql_number(&leaked).await, 0);
    let listed = ada.get("/tokens").await.ok();
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn racing_requests_with_a_key_act_once() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let answers = join_all((0..10).map(|_| create(&ada, "key-1", "engine"))).await;
    let mut created = Vec::new();
    for answer in answers {
        if answer.status == 201 {
            created.push(answer.created());
        } else {
            // The first is still being answered.
            answer.assert_error(409, "idempotency_conflict");
        }
    }
    assert!(!created.is_empty());
    assert!(created.iter().all(|body| *body == created[0]));
    assert_eq!(create(&ada, "key-1", "engine").await.created(), created[0]);
}

#[tokio::test]
async fn an_upload_is_repeated_safely() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let one = Site::page("one").tarball();
    let upload = |tarball: &[u8]| {
        ada.post("/projects/engine/deployments").header("idempotency-key", "up-1").upload(tarball.to_vec())
    };
    let first = upload(&one).await.created();
    // A repetition is recorded, too, until its body is there: that is gone before its answer comes, however long it takes.
    world
        .sql(
            "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.3); RETURN OLD; END $$;
             CREATE TRIGGER linger BEFORE DELETE ON deployments FOR EACH ROW EXECUTE FUNCTION linger();",
        )
        .await;
    assert_eq!(upload(&one).await.created(), first);
    assert_eq!(ada.project("engine").await["deployments"].as_array().unwrap().len(), 1);
    upload(&Site::page("two").tarball()).await.assert_error(409, "idempotency_conflict");
    assert_eq!(ada.project("engine").await["deployments"].as_array().unwrap().len(), 1);
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "one");
}

#[tokio::test]
async fn what_shapes_a_share_is_part_of_its_request() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let tarball = Site::page("one").tarball();
    let share = async |ttl: u32, password: &str| {
        let request = ada.post(&format!("/shares?ttl={ttl}")).header("idempotency-key", "share-1");
        let request = if password.is_empty() { request } else { request.header("x-svc-share-password", password) };
        request.upload(tarball.clone()).await
    };
    let first = share(2, "hunter22").await.created();
    assert_eq!(share(2, "hunter22").await.created(), first);
    for (ttl, password) in [(3, "hunter22"), (2, "hunter23"), (2, "")] {
        share(ttl, password).await.assert_error(409, "idempotency_conflict");
    }
    assert_eq!(ada.get("/shares").await.ok()["shares"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_repetition_is_answered_though_its_first_request_used_the_plan_up() {
    let world = World::builder().plan(&json!({ "shares": 1, "storage_bytes": domain::limits::MB })).start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    for (path, key, other_key) in [("/shares", "1", "2"), ("/projects/engine/deployments", "3", "4")] {
        let upload =
            |key: &str, text: &str| ada.post(path).header("idempotency-key", key).upload(Site::page(text).tarball());
        let first = upload(key, "one").await.created();
        world.sql("UPDATE deployments SET stored_bytes = 1000000 WHERE status = 'live'").await;
        assert_eq!(upload(key, "one").await.created(), first, "{path}");
        upload(key, "two").await.assert_error(409, "idempotency_conflict");
        upload(other_key, "one").await.assert_error(403, "plan_limit_reached");
        world.sql("UPDATE deployments SET stored_bytes = 0 WHERE status = 'live'").await;
    }
}

#[tokio::test]
async fn a_key_is_forgotten_after_a_day() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    create(&ada, "key-1", "engine").await.created();
    world.sql("UPDATE idempotency_keys SET created_at = created_at - interval '25 hours'").await;
    create(&ada, "key-1", "motor").await.created();
}

#[tokio::test]
async fn a_key_is_claimed_again_only_once_its_request_shows_no_life() {
    let world = World::start().await;
    let db = sqlx::PgPool::connect(world.database.as_str()).await.unwrap();
    let (scope, first, second) = ([1; 32], [2; 32], [3; 32]);
    let begun = Clock::system().now();
    let minute = Duration::from_mins(1);
    let claim = async |request: &[u8; 32], now: Timestamp| {
        let horizon = ClaimHorizon { answered: now - minute * 60 * 24, running: now - minute * 3 };
        idempotency::claim(&db, &scope, request, now, horizon).await.unwrap()
    };
    assert_eq!(claim(&first, begun).await, KeyClaim::Fresh);
    // It waits for its turn to be published for many minutes, and shows every minute that it does.
    for passed in 1..=12 {
        let now = begun + minute * passed;
        assert_eq!(claim(&second, now).await, KeyClaim::Running { request: first.to_vec() }, "after {passed} minutes");
        idempotency::keep_alive(&db, &scope, begun, now).await.unwrap();
    }
    // Its process has died.
    let now = begun + minute * 16;
    assert_eq!(claim(&second, now).await, KeyClaim::Fresh);
    // Whoever is taken over shows no life for its successor, and leaves no answer.
    idempotency::keep_alive(&db, &scope, begun, now + minute * 4).await.unwrap();
    idempotency::store_response(&db, &scope, begun, 200, b"answer").await.unwrap();
    assert_eq!(claim(&first, now + minute * 4).await, KeyClaim::Fresh);
}

#[tokio::test]
async fn keys_have_a_form() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    for bad in ["", &"k".repeat(256)] {
        create(&ada, bad, "engine").await.assert_error(400, "invalid_request");
    }
}
