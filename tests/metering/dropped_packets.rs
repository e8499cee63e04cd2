//! A Redis whose packets are lost: nothing of it acknowledges anything any more, and another one has its address. A Postgres of
//! which the same is true.

mod postgres;

use std::process::Command;

use super::{silent_redis::Vanishing, *};
use crate::world::{
    Site,
    machine::{Address, Machine},
};

/// The time within which a Redis that is gone is given up: three seconds, and some for a machine that is busy.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(10);
const PORT: u16 = 6379;

/// A Redis on a machine of its own.
async fn redis(address: &Address, name: &str, folder: &Path) -> Machine {
    let mut command = Command::new("redis-server");
    command.args(["--protected-mode", "no", "--save", "", "--port"]).arg(PORT.to_string()).arg("--dir").arg(folder);
    address.start(name, folder, &command).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_whose_packets_are_dropped_is_given_up_for_the_one_at_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let address = Address::new();
    let first = redis(&address, "a", folder.path()).await;
    let second = redis(&address, "b", folder.path()).await;
    address.lead_to(&first);
    let url = format!("redis://{}:{PORT}", address.there);
    let mut vanishing = Vanishing::start(&url).await;
    let site = vanishing.metered.ada.publish("engine", &Site::page("home")).await;
    let mut events = vanishing.metered.ada.follow(None).await;

    only_open_are(vanishing.held.try_into().unwrap(), &Redis::connect(&url).unwrap()).await;
    let stood = address.connections();
    assert!(!stood.is_empty());
    first.fall_silent();
    assert_eq!(vanishing.ask().await, 503);
    second.ignore(&stood);
    address.lead_to(&second);
    eventually(GIVEN_UP_WITHIN, "the other one is used", async || vanishing.ask().await == 200).await;
    // Nobody waits for who is gone: not those either who ask nothing, and only listen.
    eventually(GIVEN_UP_WITHIN, "what stood is given up", async || address.connections().is_disjoint(&stood)).await;

    // The other one knows what is under way, and that its edge lives.
    let redis = Redis::connect(&url).unwrap();
    let (open, held) = (async || open_at(&redis).await.len() as u64, vanishing.held);
    eventually(BACKGROUND, "what is under way is reserved", async || open().await == held).await;
    // The streams of events as well. What is done before admin reads the other one is in no event: it is why they are reset.
    events.until("reset").await;
    let ada = &vanishing.metered.ada;
    ada.create_project("two").await;
    loop {
        let told = events.next().await.expect("the stream ended");
        if told.name == "reset" || (told.data["type"] == "project.create" && told.data["project"] == "two") {
            break;
        }
    }
    eventually(BACKGROUND, "admin hears of the edge", async || {
        let activated = ada.activate("engine", &site.id).await.assert_status(200);
        activated.header("x-svc-propagation").starts_with("1/1")
    })
    .await;
    let _world = vanishing.end().await;
    eventually(BACKGROUND, "nothing is reserved", async || open().await == 0).await;
}
