//! `GET /health`.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    BACKGROUND,
    world::{Actor, World, eventually},
};

#[tokio::test]
async fn health_is_public_and_says_ok() {
    let world = World::start().await;
    assert_eq!(world.nobody().get("/health").await.ok(), json!({ "ok": true }));
}

#[tokio::test]
async fn health_is_503_while_redis_is_away_and_comes_back() {
    let mut world = World::start().await;
    let nobody = world.nobody();
    world.redis.kill();
    eventually(Duration::from_secs(10), "503 without Redis", async || nobody.get("/health").await.status == 503).await;
    world.restart_redis();
    eventually(Duration::from_secs(20), "200 with Redis", async || nobody.get("/health").await.status == 200).await;
}

#[tokio::test]
async fn health_is_503_while_postgres_is_away_and_comes_back() {
    let world = World::start().await;
    let nobody = world.nobody();
    world.stop_postgres().await;
    eventually(Duration::from_secs(10), "503 without Postgres", async || nobody.get("/health").await.status == 503)
        .await;
    world.start_postgres().await;
    eventually(Duration::from_secs(20), "200 with Postgres", async || nobody.get("/health").await.status == 200).await;
}

#[tokio::test]
async fn health_is_answered_within_two_seconds_while_redis_hangs() {
    let world = World::start().await;
    let (nobody, edge) = (world.nobody(), world.edge());
    let in_time = async |request: crate::world::request::Request| {
        let start = Instant::now();
        let answer = request.await;
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        answer.status == 503
    };
    world.redis.signal("STOP");
    eventually(BACKGROUND, "503 of admin", async || in_time(nobody.get("/health")).await).await;
    eventually(BACKGROUND, "503 at the edge", async || in_time(edge.get("https://api.svc.localhost/health")).await)
        .await;
    world.redis.signal("CONT");
    eventually(BACKGROUND, "200 again", async || nobody.get("/health").await.status == 200).await;
}

#[tokio::test]
async fn the_first_answer_of_an_admin_is_that_all_is_well() {
    let world = World::start().await;
    let (port, _other) = world.start_admin_at_a_port();
    let other: Actor = world.nobody().at_admin(port);
    let mut first = None;
    eventually(BACKGROUND, "it answers", async || {
        first = other.get("/health").attempt().await.ok();
        first.is_some()
    })
    .await;
    assert_eq!(first.unwrap().ok(), json!({ "ok": true }));
}
