//! Photographs of every page, and what loading it costs: `console/shots`.

use super::Scene;

#[tokio::test]
#[ignore = "photographs, made by `console/shots`"]
async fn photographs() {
    Scene::start().await.run("photographs.ts").await;
}

#[tokio::test]
#[ignore = "a measurement, made by `console/shots --figures`"]
async fn figures() {
    Scene::start().await.run("figures.ts").await;
}

#[tokio::test]
#[ignore = "a world to look at, until its script ends"]
async fn held() {
    let scene = Scene::start().await;
    super::scene::many_sites(&scene).await;
    scene.run("held.ts").await;
}
