//! A store of another database, in a folder and in a bucket.

use std::fs;

use super::{FORMER, assert_refuses, give_away, start, stop};
use crate::{
    BACKGROUND,
    world::{Builder, Site, World, eventually},
};

async fn at_the_start(builder: Builder) {
    let mut world = builder.start().await;
    let ada = world.user("ada").await;
    let site = ada.publish("engine", &Site::page("hello")).await;
    let name = fs::read_to_string(world.store_name_file()).unwrap();
    let database = world.sql_text("SELECT name FROM database_name").await;
    assert!(name.contains(&database), "{name}");
    stop(&mut world);
    give_away(&world.store_name_file());

    let refusal = ["the store", "store.url", FORMER, &database, "postgres.url", "store.take_over_from"];
    for wanted in [None, Some("another")] {
        if let Some(wanted) = wanted {
            world.set("STORE__TAKE_OVER_FROM", wanted);
        }
        let (_, mut admin) = world.start_admin_at_a_port();
        assert_refuses(&mut admin, &refusal).await;
        world.restart_edge_unready(0);
        assert_refuses(&mut world.edges[0].process, &refusal).await;
    }
    let suspended = world.operate(&["suspend", "engine", "--reason", "abuse"]).await;
    assert!(!suspended.status.success() && String::from_utf8_lossy(&suspended.stderr).contains(FORMER));

    // By its name, and once.
    world.set("STORE__TAKE_OVER_FROM", FORMER);
    world.restart_edge_unready(0);
    assert_refuses(&mut world.edges[0].process, &refusal).await;
    start(&mut world).await;
    world.edge().get(&site.url).await.assert_body(200, "hello");
    assert!(fs::read_to_string(world.store_name_file()).unwrap().contains(&database));
    stop(&mut world);
    give_away(&world.store_name_file());
    let (_, mut admin) = world.start_admin_at_a_port();
    assert_refuses(&mut admin, &refusal).await;
    let log = admin.log();
    let way = format!("admin take-over store {FORMER}");
    assert!(log.contains("was followed at") && log.contains(&way), "{log}");
    // The way that it names.
    assert!(!world.operate(&["take-over", "store", "another"]).await.status.success());
    world.admin_prints(&["take-over", "store", FORMER]).await;
    start(&mut world).await;
    world.edge().get(&site.url).await.assert_body(200, "hello");
}

#[tokio::test]
async fn a_folder_of_another_database_is_refused_until_it_is_taken_over_by_name() {
    at_the_start(World::builder()).await;
}

#[tokio::test]
async fn a_bucket_of_another_database_is_refused_until_it_is_taken_over_by_name() {
    at_the_start(World::builder().bucket()).await;
}

#[tokio::test]
async fn a_store_that_becomes_another_databases_stops_the_programs() {
    let mut world = World::start().await;
    give_away(&world.store_name_file());
    assert_refuses(&mut world.admin, &["the store", FORMER]).await;
    assert_refuses(&mut world.edges[0].process, &["the store", FORMER]).await;
}

#[tokio::test]
async fn a_store_that_is_away_at_the_start_is_looked_at_later() {
    let mut world = World::builder().bucket().start().await;
    stop(&mut world);
    world.bucket_mut().stop();
    // Both begin without it.
    start(&mut world).await;
    give_away(&world.store_name_file());
    world.bucket_mut().restart();
    assert_refuses(&mut world.admin, &["the store", FORMER]).await;
    assert_refuses(&mut world.edges[0].process, &["the store", FORMER]).await;
}

#[tokio::test]
async fn an_empty_database_on_a_full_store_is_refused_and_nothing_is_deleted() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("hello")).await;
    stop(&mut world);
    // As a new database has it; and the packs are old enough to be taken for orphans.
    world
        .sql(
            "UPDATE database_name SET name = '0other0'; UPDATE projects SET active_deployment_id = NULL;
             DELETE FROM deployments; UPDATE job_leases SET last_run_at = last_run_at - interval '1 day', leased_until = NULL",
        )
        .await;
    world.redis_command("FLUSHALL").await;
    let files = world.stored_files();
    for file in &files {
        let file = fs::File::options().append(true).open(file).unwrap();
        let written = file.metadata().unwrap().modified().unwrap();
        file.set_modified(written - std::time::Duration::from_hours(48)).unwrap();
    }
    let (_, mut admin) = world.start_admin_at_a_port();
    assert_refuses(&mut admin, &["the store", "belongs to the database"]).await;
    // One of a version that gave no names.
    fs::remove_file(world.store_name_file()).unwrap();
    let (_, mut admin) = world.start_admin_at_a_port();
    assert_refuses(&mut admin, &["the store", "knows none of its packs", "unnamed"]).await;
    assert!(!files.is_empty());
    assert_eq!(world.stored_files(), files);
    assert!(!world.store_name_file().exists());
}

#[tokio::test]
async fn a_store_of_a_former_version_gets_its_name_and_an_empty_one_none() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    let site = ada.publish("engine", &Site::page("hello")).await;
    stop(&mut world);
    fs::remove_file(world.store_name_file()).unwrap();
    start(&mut world).await;
    assert!(world.store_name_file().exists());
    world.edge().get(&site.url).await.assert_body(200, "hello");

    // A typo in the folder's name.
    let typo = world.folder().join("sotre");
    world.set("STORE__URL", url::Url::from_directory_path(&typo).unwrap());
    let (_, mut admin) = world.start_admin_at_a_port();
    assert_refuses(&mut admin, &["sotre", "is empty", "store.url"]).await;
    world.restart_edge_unready(0);
    assert_refuses(&mut world.edges[0].process, &["sotre", "no admin gave it one"]).await;
    // It is meant.
    world.set("STORE__TAKE_OVER_FROM", "unnamed");
    start(&mut world).await;
    eventually(BACKGROUND, "it has its name", async || typo.join("database.json").exists()).await;
}
