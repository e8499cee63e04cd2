//! Another database behind the same URL, and the same one from a dump.

use std::process::Command;

use super::{assert_refuses, start, stop};
use crate::world::{Site, World, process::run};

#[tokio::test]
async fn another_database_behind_the_same_url_stops_the_programs() {
    let mut world = World::start().await;
    world.sql("UPDATE database_name SET name = '0other0'").await;
    let words = ["the database 0other0", "postgres.url", "has taken the place"];
    assert_refuses(&mut world.admin, &words).await;
    assert_refuses(&mut world.edges[0].process, &words).await;
}

#[tokio::test]
async fn a_restored_dump_starts_on_its_own_store() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    let site = ada.publish("engine", &Site::page("hello")).await;
    let dump = world.folder().join("dump");
    run(Command::new("pg_dump").arg("--file").arg(&dump).arg(world.database.as_str()));
    ada.deploy("engine", &Site::page("later")).await;
    stop(&mut world);
    world.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
    run(Command::new("psql")
        .args(["--quiet", "--set", "ON_ERROR_STOP=1", "--file"])
        .arg(&dump)
        .arg(world.database.as_str()));
    start(&mut world).await;
    world.edge().get(&site.url).await.assert_body(200, "hello");
}
