//! Real dumps, restored under a store that has moved on.

use std::time::Duration;

use crate::{
    BACKGROUND,
    world::{Site, World, dump::BareDatabase, eventually},
};

const STOPPED: &str = "SELECT coalesce(max(stopped_for), '') FROM store_sweep";

/// Waits until the first sweep has seen the store.
async fn swept(world: &World) {
    let is_in_step = async || world.sql_number("SELECT count(in_step_until) FROM store_sweep").await == 1;
    eventually(BACKGROUND, "the store was swept", is_in_step).await;
}

/// Waits until the sweep has stopped and the trash was tended on the restored database.
async fn stopped(world: &World) {
    let has_stopped = async || world.sql_text(STOPPED).await == "older_database";
    eventually(BACKGROUND, "the sweep has stopped", has_stopped).await;
    let tended =
        "SELECT count(*) FROM job_leases WHERE job = 'tend the trash' AND last_run_at > now() - interval '1 hour'";
    eventually(BACKGROUND, "the trash was tended", async || world.sql_number(tended).await == 1).await;
}

#[tokio::test]
async fn last_nights_dump_loses_no_pack_and_the_newer_one_finds_them_all() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    let early = ada.publish("early", &Site::page("early")).await;
    let dropped = ada.deploy("early", &Site::page("dropped")).await;
    ada.activate("early", &early.id).await.ok();
    swept(&world).await;
    let dump = world.dump_to_file().await;
    let mut late = Vec::new();
    for n in 0..24 {
        late.push(ada.publish(&format!("late-{n}"), &Site::page(&format!("late {n}"))).await);
    }
    // Deleted since: the dump has it.
    ada.delete(&format!("/projects/early/deployments/{}", dropped.id)).await.ok();
    eventually(BACKGROUND, "it is in the trash", async || world.trashed_files().len() == 3).await;
    let stored = world.stored_files();
    assert_eq!(stored.len(), 2 * 25);
    world.age_packs(Duration::from_hours(2));

    let newer = world.database.clone();
    let older: BareDatabase = world.restore_beside(&dump).await;
    world.move_admin_to(&older.url).await;
    stopped(&world).await;
    let back = async || world.stored_files().len() == 2 * 26;
    eventually(BACKGROUND, "the pack that the dump has is back", back).await;
    assert!(stored.iter().all(|file| file.exists()), "a pack is gone");
    assert_eq!(world.trashed_files().len(), 0);
    let log = world.admin.log();
    assert!(log.contains("the sweep of the store has stopped"), "{log}");
    let said = world.admin_prints(&["store", "sweep"]).await;
    assert!(said.starts_with("26 packs, 24 without a record"), "{said}");

    world.move_admin_to(&newer).await;
    world.age_packs(Duration::from_hours(2));
    world.restart_admin_later().await;
    // It was deleted, which is not forgotten: no alarm, and it goes where it was.
    eventually(BACKGROUND, "the deleted one is in the trash again", async || world.stored_files() == stored).await;
    assert_eq!(world.sql_text(STOPPED).await, "");
    for (n, site) in late.iter().enumerate() {
        world.edge().get(&site.url).await.assert_body(200, format!("late {n}"));
    }
    older.remove().await;
}
