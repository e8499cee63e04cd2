//! Recovery to a point in time, as deploy/runbook/restore.md walks it: a base backup and the archived log.

use crate::{
    BACKGROUND,
    world::{Site, World, eventually},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_live_at_a_time_is_live_again() {
    let mut world = World::builder().archived_postgres().edges(2).start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("first")).await;
    world.make_base_backup();
    ada.deploy("engine", &Site::page("second")).await;
    let url = world.site_url("engine");
    world.edge().get(&url).await.assert_body(200, "second");
    let time = world.postgres_time().await;

    // What somebody wishes undone.
    ada.deploy("engine", &Site::page("third")).await;
    ada.publish("unwanted", &Site::page("unwanted")).await;
    for edge in &world.edges {
        edge.get(&url).await.assert_body(200, "third");
    }
    // The edges go on; admin is stopped while the database is away.
    world.admin.kill();
    world.recover_postgres(&time).await;
    world.restart_admin().await;
    for edge in &world.edges {
        let is_back = async || edge.get(&url).attempt().await.is_ok_and(|answer| answer.body == "second");
        eventually(2 * BACKGROUND, "an edge serves what was live then", is_back).await;
    }
    let unwanted = world.site_url("unwanted");
    let is_gone = async || world.edge().get(&unwanted).await.status == 404;
    eventually(2 * BACKGROUND, "what came later is gone", is_gone).await;
    world.restart_edge(1).await;
    world.edges[1].get(&url).await.assert_body(200, "second");
    // And it goes on from there.
    ada.deploy("engine", &Site::page("fourth")).await;
    let is_new = async || world.edges[1].get(&url).await.body == "fourth";
    eventually(BACKGROUND, "a deployment after that is served", is_new).await;
}
