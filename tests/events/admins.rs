//! Several admins, and the end of one.

use crate::{
    BACKGROUND,
    world::{World, eventually},
};

#[tokio::test]
async fn what_happens_at_one_admin_is_told_by_another() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let (port, _other) = world.start_admin_at_a_port();
    let there = ada.at_admin(port);
    eventually(BACKGROUND, "the other admin is ready", async || {
        there.get("/health").attempt().await.is_ok_and(|answer| answer.status == 200)
    })
    .await;
    let mut stream = there.follow(None).await;
    ada.create_project("engine").await;
    let told = stream.until("project.create").await;
    // What one has told can be gone on with at the other.
    there.create_project("two").await;
    let mut resumed = ada.follow(told.id.as_deref()).await;
    assert_eq!(resumed.next().await.unwrap().data["project"], "two");
}

#[tokio::test]
async fn an_admin_that_stops_ends_its_streams_and_they_go_on_elsewhere() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    let mut stream = ada.follow(None).await;
    ada.create_project("engine").await;
    let seen = stream.until("project.create").await.id.unwrap();
    assert!(world.admin.stop().success());
    stream.assert_ends().await;
    world.restart_admin_later().await;
    ada.create_project("two").await;
    let mut resumed = ada.follow(Some(&seen)).await;
    assert_eq!(resumed.next().await.unwrap().data["project"], "two");
}

#[tokio::test]
async fn a_cluster_carries_events_too() {
    let world = World::builder().redis_cluster().start().await;
    let ada = world.user("ada").await;
    let mut stream = ada.follow(None).await;
    ada.create_project("engine").await;
    stream.until("project.create").await;
}
