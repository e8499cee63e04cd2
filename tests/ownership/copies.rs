//! A copy of the database on the store of its original: one of both rules the store, and the other one moves and deletes nothing.

use std::time::Duration;

use serde_json::Value;

use crate::{
    BACKGROUND,
    world::{Site, World, dump::BareDatabase, eventually},
};

async fn doctor_of_store(world: &World) -> Value {
    let output = world.operate(&["doctor", "--json"]).await;
    let checks: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    checks.into_iter().find(|check| check["name"] == "store").unwrap()
}

#[tokio::test]
async fn a_copy_of_the_database_takes_no_pack_until_it_is_told_to_rule() {
    let mut world = World::builder().set("STORE__TRASH_DAYS", 0).start().await;
    let ada = world.user("ada").await;
    let old = ada.publish("engine", &Site::page("one")).await;
    ada.deploy("engine", &Site::page("two")).await;
    let swept = async |world: &World| world.sql_number("SELECT count(in_step_until) FROM store_sweep").await == 1;
    eventually(BACKGROUND, "the store was swept", async || swept(&world).await).await;
    assert_eq!(doctor_of_store(&world).await["level"], "ok");
    let ruler = world.store_name_file().with_file_name("ruler.json");
    let of_original = std::fs::read_to_string(&ruler).unwrap();
    let dump = world.dump_to_file().await;
    let original = world.database.clone();

    let copy: BareDatabase = world.restore_beside(&dump).await;
    world.move_admin_to(&copy.url).await;
    ada.delete(&format!("/projects/engine/deployments/{}", old.id)).await.ok();
    let stopped = async || world.sql_text("SELECT coalesce(max(stopped_for), '') FROM store_sweep").await == "copy";
    eventually(BACKGROUND, "the sweep of the copy has stopped", stopped).await;
    let log = world.admin.log();
    assert!(log.contains("the sweep of the store has stopped") && log.contains("ruled by another copy"), "{log}");
    let found = doctor_of_store(&world).await;
    assert!(found["level"] == "warn" && found.to_string().contains("another copy"), "{found}");
    // Several runs of the jobs later.
    world.restart_admin_later().await;
    let tended =
        "SELECT count(*) FROM job_leases WHERE job = 'tend the trash' AND last_run_at > now() - interval '1 minute'";
    eventually(BACKGROUND, "the trash was tended", async || world.sql_number(tended).await == 1).await;
    assert_eq!((world.stored_files().len(), world.trashed_files().len()), (4, 0));
    assert_eq!(world.sql_number("SELECT count(*) FROM pack_removals").await, 1, "it waits");
    assert_eq!(std::fs::read_to_string(&ruler).unwrap(), of_original);

    // The operator says so.
    let said = world.admin_prints(&["store", "sweep"]).await;
    assert!(said.contains("another copy") && said.contains("--yes"), "{said}");
    world.admin_prints(&["store", "sweep", "--yes"]).await;
    assert_ne!(std::fs::read_to_string(&ruler).unwrap(), of_original);
    eventually(BACKGROUND, "its pack is not where it was", async || world.stored_files().len() == 2).await;
    assert_eq!(doctor_of_store(&world).await["level"], "ok");

    // From then on the original moves nothing; what it wants comes back all the same, unless it is gone for good.
    world.move_admin_to(&original).await;
    let found = doctor_of_store(&world).await;
    assert!(found["level"] == "warn" && found.to_string().contains("another copy"), "{found}");
    copy.remove().await;
}

#[tokio::test]
async fn a_copy_knows_itself_where_the_store_says_nothing() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("one")).await;
    let ruler = world.store_name_file().with_file_name("ruler.json");
    eventually(BACKGROUND, "the store has a ruler", async || ruler.exists()).await;
    let noted = async || world.sql_number("SELECT count(copy) FROM store_sweep").await == 1;
    eventually(BACKGROUND, "the database knows", noted).await;
    let dump = world.dump_to_file().await;
    let copy: BareDatabase = world.restore_beside(&dump).await;
    let original = world.database.clone();
    world.admin.kill();
    std::fs::remove_file(&ruler).unwrap();
    world.move_admin_to(&copy.url).await;
    let found = doctor_of_store(&world).await;
    assert!(found["level"] == "warn" && !ruler.exists(), "{found}");
    // The original takes its place again by itself.
    world.move_admin_to(&original).await;
    eventually(BACKGROUND + Duration::from_secs(5), "the store has a ruler", async || ruler.exists()).await;
    assert_eq!(doctor_of_store(&world).await["level"], "ok");
    copy.remove().await;
}
