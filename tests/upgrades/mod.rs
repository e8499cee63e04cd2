//! A version beside the one before it: on one database, Redis, spool and store.

mod recorded;
mod rolling;

use crate::{
    BACKGROUND,
    world::{Site, World, eventually},
};

/// The newest migration of a version that is still to come.
const NEWER: &str = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                     VALUES (9999, 'of a newer version', true, '\\x00', 1)";

#[tokio::test]
async fn an_admin_starts_and_does_its_work_on_a_newer_schema() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    let site = ada.publish("engine", &Site::page("before")).await;
    world.sql(NEWER).await;
    world.restart_admin().await;
    world.admin_prints(&["migrate"]).await;
    world.user("grace").await;
    ada.deploy("engine", &Site::page("after")).await;
    world.edge().get(&site.url).await.assert_body(200, "after");
}

#[tokio::test]
async fn a_program_that_the_schema_has_left_behind_says_so() {
    let mut world = World::start().await;
    let site = world.user("ada").await.publish("engine", &Site::page("still here")).await;
    world.sql("UPDATE schema_floor SET oldest_migration = 9998, oldest_version = '9.1.0'").await;
    for command in [&["migrate"][..], &["issue-token", "--login", "grace"], &["serve"]] {
        let output = world.operate(command).await;
        let said = String::from_utf8_lossy(&output.stderr);
        let is_told = said.contains("too old") && said.contains("9.1.0") && said.contains("9998");
        assert!(!output.status.success() && is_told, "{command:?}: {said}");
    }
    // It serves what it can, and says so, too.
    world.restart_edge(0).await;
    let edge = &world.edges[0];
    eventually(BACKGROUND, "the edge says so", async || edge.process.log().contains("too old")).await;
    edge.get(&site.url).await.assert_body(200, "still here");
}
