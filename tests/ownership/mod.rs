//! Whose the parts are: a store, a Redis, a spool or a master key of another database is refused, at the start and later.

mod authorities;
mod copies;
mod database;
mod doctor;
mod key;
mod redis;
mod spool;
mod store;

use serde_json::json;

use crate::{
    BACKGROUND,
    world::{World, eventually, process::Process},
};

/// The database that owns what a test makes foreign.
const FORMER: &str = "0former0";

/// Writes the name of another database where this world's is, as that one's programs would have.
fn give_away(file: &std::path::Path) {
    let name = json!({ "version": 1, "database": FORMER, "written_at": "2026-01-01T00:00:00.000Z" });
    std::fs::write(file, name.to_string()).unwrap();
}

/// Waits until a program has ended by itself, and fails unless its last words contain all of `words`.
async fn assert_refuses(process: &mut Process, words: &[&str]) {
    eventually(BACKGROUND, "the program ends", async || process.has_ended()).await;
    let log = process.log();
    let end = log.lines().rev().find(|line| line.contains("ERROR")).unwrap_or_default().to_owned();
    for word in words {
        assert!(end.contains(word), "{word} in {end}\n{log}");
    }
    assert!(!process.wait().success());
}

/// Stops admin and the first edge, as before a change of their configuration.
fn stop(world: &mut World) {
    world.admin.kill();
    world.edges[0].process.kill();
}

/// Starts admin and the first edge again, with whatever was set since, and waits until both are ready.
async fn start(world: &mut World) {
    world.restart_admin_alone().await;
    world.restart_edge(0).await;
}
