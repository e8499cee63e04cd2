//! A spool of another database.

use super::{FORMER, assert_refuses, give_away};
use crate::{
    BACKGROUND,
    world::{World, eventually},
};

#[tokio::test]
async fn a_spool_of_another_database_is_refused_until_it_is_taken_over_by_name() {
    let mut world = World::start().await;
    let file = world.folder().join("spool/database.json");
    let database = world.sql_text("SELECT name FROM database_name").await;
    assert!(std::fs::read_to_string(&file).unwrap().contains(&database));
    // Later: it ends.
    give_away(&file);
    let refusal = ["the spool", "edge.spool", FORMER, &database, "edge.spool_take_over_from"];
    assert_refuses(&mut world.edges[0].process, &refusal).await;
    // At the start, too.
    world.set("EDGE__SPOOL_TAKE_OVER_FROM", "another");
    world.restart_edge_unready(0);
    assert_refuses(&mut world.edges[0].process, &refusal).await;
    world.set("EDGE__SPOOL_TAKE_OVER_FROM", FORMER);
    world.restart_edge(0).await;
    eventually(BACKGROUND, "it is renamed", async || std::fs::read_to_string(&file).unwrap().contains(&database)).await;
    // Once. The refusal says when that was, and how to go on.
    give_away(&file);
    let noted = file.with_file_name("take-overs.json");
    let used_up = ["the spool", FORMER, &database, "was followed at", noted.to_str().unwrap()];
    assert_refuses(&mut world.edges[0].process, &used_up).await;
    world.restart_edge_unready(0);
    assert_refuses(&mut world.edges[0].process, &used_up).await;
    std::fs::remove_file(&noted).unwrap();
    world.restart_edge(0).await;
}
