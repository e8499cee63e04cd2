//! Backups that are damaged, of another key, or were never completed.

use std::{fs, path::Path, process::Command, time::Duration};

use super::{Visits, place, refused};
use crate::{
    stubs::latency,
    world::{
        Site, World,
        bucket::files_below,
        process::{program, run},
    },
};

/// How often a backup is killed, unless `SVC_TEST_BACKUP_KILLS` says another number.
const KILLS: usize = 4;

/// Changes one byte in the middle of a file.
fn flip_a_byte(file: &Path) {
    let mut content = fs::read(file).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(file, content).unwrap();
}

/// The first file of a backup whose path ends so.
fn file(world: &World, end: &str) -> std::path::PathBuf {
    let files = files_below(&world.folder().join("backups"));
    files.into_iter().find(|file| file.ends_with(end)).unwrap_or_else(|| panic!("no {end}"))
}

/// A backup of one site in an emptied world.
async fn lost_world() -> (World, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("master.key");
    fs::copy(World::master_key().await, &keys).unwrap();
    let mut world = World::builder().set("SECRETS__MASTER_KEY_FILE", keys.display()).start().await;
    let place = place(&world, "backups");
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("engine").file("more.html", "more")).await;
    ada.put("/projects/engine/env/KEY").json(&serde_json::json!({ "value": "secret" })).await.ok();
    world.admin_prints(&["backup", &place]).await;
    world.lose_everything().await;
    (world, place, folder)
}

async fn assert_nothing_was_written(world: &World) {
    assert!(world.stored_files().is_empty());
    assert_eq!(world.sql_number("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_backup_is_refused_before_anything_is_written() {
    let (world, place, keys) = lost_world().await;
    for (end, complaint) in [("data", "digest"), ("dump", "does not open")] {
        let file = file(&world, end);
        let intact = fs::read(&file).unwrap();
        flip_a_byte(&file);
        let said = refused(&world, &["restore", &place]).await;
        assert!(said.contains("nothing was written") && said.contains(complaint), "{said}");
        assert!(refused(&world, &["backup", "verify", &place]).await.contains("damaged in 1 place"));
        fs::write(&file, &intact[..intact.len() - 1]).unwrap();
        assert!(refused(&world, &["restore", &place]).await.contains("nothing was written"));
        fs::remove_file(&file).unwrap();
        assert!(refused(&world, &["restore", &place]).await.contains("nothing was written"));
        fs::write(&file, intact).unwrap();
    }
    let manifest = files_below(&world.folder().join("backups/backups"))
        .into_iter()
        .find(|file| file.ends_with("manifest"))
        .unwrap();
    let intact = fs::read_to_string(&manifest).unwrap();
    flip_a_byte(&manifest);
    assert!(refused(&world, &["restore", &place]).await.contains("cannot be read"));
    fs::write(&manifest, &intact).unwrap();

    // Of another key: it says which line the file lacks.
    let file = keys.path().join("master.key");
    let kept = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    run(Command::new(program("certs")).arg("master-key").arg(&file));
    let said = refused(&world, &["restore", &place]).await;
    assert!(said.contains("the key file lacks"), "{said}");
    assert!(refused(&world, &["restore", &place, "--at", "20200101T000000.000Z"]).await.contains("no backup"));
    assert_nothing_was_written(&world).await;
    let both = format!("{}{kept}", fs::read_to_string(&file).unwrap());
    fs::write(&file, both).unwrap();
    world.admin_prints(&["restore", &place, "--verify"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_is_killed_leaves_the_one_before_whole() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    let place = place(&world, "backups");
    let mut visits = Visits::publish(&ada, "first", 3).await;
    world.admin_prints(&["backup", &place]).await;
    let kills = std::env::var("SVC_TEST_BACKUP_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    for kill in 0..kills {
        visits.0.extend(Visits::publish(&ada, &format!("later-{kill}"), 2).await.0);
        // Slow enough to be hit at any step of it.
        world.set("BACKUP__BYTES_PER_SECOND", "60000");
        let mut backup = world.begin_to_operate(&["backup", &place]);
        let after = Duration::from_millis(rand::random_range(100..1_500));
        latency(after).await;
        backup.kill().await.unwrap();
        world.set("BACKUP__BYTES_PER_SECOND", "0");
        world.admin_prints(&["backup", "verify", &place]).await;
        // Its leases end by themselves within a minute.
        world
            .sql("UPDATE job_leases SET leased_until = NULL WHERE job IN ('back up', 'move packs to the trash')")
            .await;
    }
    world.admin_prints(&["backup", &place]).await;
    world.admin_prints(&["backup", "prune", &place, "--keep-last", "1"]).await;
    world.admin_prints(&["backup", "verify", &place]).await;
    let left = files_below(&world.folder().join("backups"));
    let packs = usize::try_from(world.sql_number("SELECT count(*) FROM deployments").await).unwrap();
    assert_eq!(left.len(), 2 * packs + 2, "something half-written is left: {left:#?}");
    world.lose_everything().await;
    world.admin_prints(&["restore", &place]).await;
    world.start_programs().await;
    visits.assert_all(&world).await;
}

#[tokio::test]
async fn a_pack_that_the_store_lost_is_named_and_holds_nothing_up() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let place = place(&world, "backups");
    let (lost, kept) = (ada.publish("lost", &Site::page("lost")).await, ada.publish("kept", &Site::page("kept")).await);
    fs::remove_dir_all(world.folder().join("store/deployments").join(&lost.id)).unwrap();
    let said = refused(&world, &["backup", &place]).await;
    assert!(said.contains(&lost.id) && !said.contains(&kept.id), "{said}");
    world.admin_prints(&["backup", "verify", &place]).await;
    assert!(world.admin_prints(&["backup", "list", &place]).await.contains("1 pack was missing"));
}

#[tokio::test]
async fn a_damaged_manifest_hides_no_other_backup() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let place = place(&world, "backups");
    ada.publish("engine", &Site::page("engine")).await;
    world.admin_prints(&["backup", &place]).await;
    let older = fs::read_dir(world.folder().join("backups/backups")).unwrap().next().unwrap().unwrap().file_name();
    let older = older.to_str().unwrap();
    world.admin_prints(&["backup", &place]).await;
    let manifests = files_below(&world.folder().join("backups/backups"));
    let newest = manifests.iter().filter(|file| file.ends_with("manifest")).max().unwrap();
    let name = newest.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    flip_a_byte(newest);

    let listed = world.admin_prints(&["backup", "list", &place]).await;
    let line = |name: &str| listed.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{listed}"));
    assert!(line(&name).contains("cannot be read") && !line(older).contains("cannot"), "{listed}");
    for command in [&["restore", &place][..], &["backup", "verify", &place]] {
        let said = refused(&world, command).await;
        assert!(said.contains(&name) && said.contains(&format!("--at {older}")), "{said}");
    }
    world.admin_prints(&["backup", "verify", &place, "--at", older]).await;
    let said = refused(&world, &["backup", "prune", &place, "--keep-last", "1"]).await;
    assert!(said.contains("nothing is removed") && said.contains(&name), "{said}");
    // Backups go on.
    world.admin_prints(&["backup", &place]).await;
    world.admin_prints(&["backup", "verify", &place]).await;
}

#[tokio::test]
async fn another_databases_backups_are_refused_by_every_command() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let place = place(&world, "backups");
    ada.publish("engine", &Site::page("engine")).await;
    world.admin_prints(&["backup", &place]).await;
    world.admin_prints(&["backup", &place]).await;
    let files = files_below(&world.folder().join("backups"));
    let own = world.sql_text("SELECT name FROM database_name").await;
    world.sql("UPDATE database_name SET name = '0other0'").await;
    let overwrite = world.database.path().trim_start_matches('/').to_owned();
    for command in [
        &["backup", &*place][..],
        &["backup", "list", &place],
        &["backup", "verify", &place],
        &["backup", "prune", &place, "--keep-last", "1"],
        &["restore", &place, "--overwrite", &overwrite],
    ] {
        let said = refused(&world, command).await;
        assert!(said.contains("another database") && said.contains(&own) && said.contains("--of"), "{said}");
    }
    assert_eq!(files_below(&world.folder().join("backups")), files);
    world.admin_prints(&["backup", "list", &place, "--of", &own]).await;
    world.admin_prints(&["backup", "verify", &place, "--of", &own]).await;
    let said = world.admin_prints(&["backup", "prune", &place, "--keep-last", "1", "--of", &own]).await;
    assert!(said.starts_with("1 backup removed"), "{said}");
}
