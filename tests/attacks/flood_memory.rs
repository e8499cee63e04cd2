//! A flood of connections that has gone: what they took goes back to the machine, that of TLS, which is written in C, included.

use futures_util::{StreamExt as _, stream};

use super::shedding;
use crate::world::{Site, World, eventually};

const CONNECTIONS: usize = 600;
const PER_CLIENT: usize = 300;
const OPENED_AT_ONCE: usize = 32;
/// What the edge may have in memory afterwards, in hundredths of before.
const KEPT_PERCENT: u64 = 115;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_a_flood_is_given_back() {
    let world = World::start().await;
    world.user("ada").await.publish("engine", &Site::page("home")).await;
    // The first connections bring code and buffers that stay.
    flood(&world, 50).await;
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "home");
    let before = world.edge().process.memory("VmRSS");
    flood(&world, CONNECTIONS).await;
    eventually(crate::BACKGROUND, "the memory of the flood is given back", async || {
        let now = world.edge().process.memory("VmRSS");
        now * 100 < before * KEPT_PERCENT
    })
    .await;
}

/// Opens so many connections, each with a request, and closes them once all are there.
async fn flood(world: &World, connections: usize) {
    let opened = stream::iter(0..connections).map(|number| {
        let client = u8::try_from(number / PER_CLIENT).unwrap();
        shedding::idle(world, client)
    });
    let opened: Vec<_> = opened.buffer_unordered(OPENED_AT_ONCE).collect().await;
    assert_eq!(opened.len(), connections);
}
