//! `GET /health`.

use std::time::Duration;

use serde_json::json;

use crate::world::{World, eventually};

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
