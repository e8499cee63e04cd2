//! A wrong master key.

use std::{fs, path::Path, process::Command};

use secrets::master_key::{KeyFile, MasterKeyBytes};

use super::{assert_refuses, start, stop};
use crate::{
    BACKGROUND,
    world::{
        World, eventually,
        process::{program, run},
    },
};

const WORDS: [&str; 4] = ["master key file", "secrets.master_key_file", "postgres.url", "sealed with key"];

fn another_key(folder: &Path) -> std::path::PathBuf {
    let file = folder.join("another.key");
    run(Command::new(program("certs")).arg("master-key").arg(&file));
    file
}

#[tokio::test]
async fn no_program_starts_with_a_wrong_key() {
    let mut world = World::start().await;
    stop(&mut world);
    let (right, wrong) = (World::master_key().await, another_key(world.folder()));
    world.set("SECRETS__MASTER_KEY_FILE", wrong.display());
    let (_, mut admin) = world.start_admin_at_a_port();
    assert_refuses(&mut admin, &WORDS).await;
    world.restart_edge_unready(0);
    assert_refuses(&mut world.edges[0].process, &WORDS).await;
    for arguments in [&["list"][..], &["rotate-key"], &["rotate-key", "--prepare"]] {
        let refused = world.certs(arguments).await;
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && WORDS.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
    }
    let report = String::from_utf8(world.certs(&["doctor"]).await.stdout).unwrap();
    assert!(report.contains("FAIL  master key"), "{report}");
    assert_eq!(fs::read_to_string(&wrong).unwrap().lines().count(), 1, "nothing was added to it");

    // Beside the right one it does no harm.
    let both = fs::read_to_string(&wrong).unwrap() + &fs::read_to_string(right).unwrap();
    fs::write(&wrong, both).unwrap();
    start(&mut world).await;
}

#[tokio::test]
async fn no_edge_starts_with_keys_of_another_master_key() {
    let mut world = World::start().await;
    let wrong = world.folder().join("edge.key");
    fs::write(&wrong, KeyFile { keys: vec![MasterKeyBytes::generate()], next: None }.to_edge_text()).unwrap();
    world.edges[0].process.kill();
    world.set("SECRETS__EDGE_KEY_FILE", wrong.display());
    world.restart_edge_unready(0);
    let words = ["this edge's keys", "secrets.edge_key_file", "postgres.url", "sealed with key", "`certs edge-key`"];
    assert_refuses(&mut world.edges[0].process, &words).await;
    // In a database without the value, by the certificates.
    world.sql("DELETE FROM master_key_checks").await;
    world.restart_edge_unready(0);
    assert_refuses(&mut world.edges[0].process, &words).await;

    let beside = fs::read_to_string(&wrong).unwrap() + &fs::read_to_string(world.edge_key()).unwrap();
    fs::write(&wrong, beside).unwrap();
    world.restart_edge(0).await;
}

#[tokio::test]
async fn an_edge_that_starts_without_postgres_finds_out_later() {
    let mut world = World::start().await;
    let wrong = another_key(world.folder());
    world.set("SECRETS__MASTER_KEY_FILE", wrong.display());
    world.stop_postgres().await;
    world.restart_edge_unready(0);
    eventually(BACKGROUND, "it serves", async || world.edge().process.log().contains("listening")).await;
    world.start_postgres().await;
    assert_refuses(&mut world.edges[0].process, &WORDS).await;
}

#[tokio::test]
async fn a_database_of_a_former_version_tells_by_its_other_values() {
    let mut world = World::start().await;
    stop(&mut world);
    world.sql("DELETE FROM master_key_checks").await;
    let wrong = another_key(world.folder());
    world.set("SECRETS__MASTER_KEY_FILE", wrong.display());
    let (_, mut admin) = world.start_admin_at_a_port();
    assert_refuses(&mut admin, &WORDS).await;
    assert_eq!(world.sql_number("SELECT count(*) FROM master_key_checks").await, 0);
    world.set("SECRETS__MASTER_KEY_FILE", World::master_key().await.display());
    world.restart_admin_alone().await;
    assert_eq!(world.sql_number("SELECT count(*) FROM master_key_checks").await, 1);
    // A `certs rotate-key` of such a version leaves the value sealed with a key that is gone.
    stop(&mut world);
    world.sql("UPDATE master_key_checks SET sealed_check = '\\x01aaaaaaaabbbbbbbbccccccccdddddddd'::bytea").await;
    world.restart_admin_alone().await;
    let is_anew = "SELECT count(*) FROM master_key_checks WHERE length(sealed_check) > 40";
    assert_eq!(world.sql_number(is_anew).await, 1);
}
