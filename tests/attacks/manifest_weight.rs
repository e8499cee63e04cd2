//! Deployments whose manifests take much memory: rules by the thousand, files by the thousand.

use std::fmt::Write as _;

use futures_util::{StreamExt as _, stream};

use super::{attacker, slow_http2_readers::Attacker};
use crate::{
    attacks::MEMORY_MIB,
    world::{Site, World},
};

/// Deployments full of header rules, each some 90 KB as they are written.
const DEPLOYMENTS: usize = 250;
/// What the edge may grow by: the share of manifests, which is a quarter of its memory, and some for the work itself.
const GROWTH: u64 = (MEMORY_MIB / 4 + 28) * 1024 * 1024;

/// As many rules and fields as a site may have.
pub(super) fn rules() -> String {
    let mut text = String::new();
    for rule in 0..100 {
        writeln!(text, "/{rule}/*").unwrap();
        for field in 0..20 {
            writeln!(text, "  X-{rule}-{field}: a value of a field {field}").unwrap();
        }
    }
    text
}

#[tokio::test]
async fn manifests_take_no_more_than_their_share() {
    let world = World::builder().set("EDGE__MEMORY", format!("{MEMORY_MIB} MiB")).start().await;
    let ada = world.user("ada").await;
    let site = Site::page("heavy").file("_headers", rules());
    let mut addresses = Vec::new();
    let url = world.site_url("heavy");
    // A project may not have as many.
    for project in ["heavy", "too-heavy"] {
        ada.publish(project, &Site::page("home")).await;
        for _ in 0..DEPLOYMENTS / 2 {
            let id = ada.deploy(project, &site).await.id;
            let label = format!("{}--{project}.", id.trim_start_matches("dep_"));
            addresses.push(url.replacen("heavy.", &label, 1));
        }
    }
    world.edge().get(&url).await.assert_body(200, "heavy");

    let before = world.edge().process.memory("VmRSS");
    let mut most = before;
    for address in &addresses {
        world.edge().get(address).await.assert_body(200, "heavy");
        most = world.edge().process.memory("VmRSS").max(most);
    }
    let growth = most - before;
    assert!(growth < GROWTH, "the edge grew by {growth} bytes for {DEPLOYMENTS} deployments");
}

#[tokio::test]
async fn files_weigh_what_they_take_once_they_were_asked_for() {
    const FILES: usize = 2_000;
    const CROWDS: usize = 12;

    let world = World::builder().set("EDGE__MEMORY", format!("{MEMORY_MIB} MiB")).start().await;
    let ada = world.user("ada").await;
    let mut addresses = Vec::new();
    let css = ".a { color: red; margin: 0 auto; padding: 0 auto }\n".repeat(40);
    let url = world.site_url("crowd");
    ada.create_project("crowd").await;
    let site = (0..FILES).fold(Site::page("home"), |site, number| site.file(&format!("{number}.css"), &css));
    for _ in 0..CROWDS {
        let id = ada.deploy("crowd", &site).await.id;
        addresses.push(url.replacen("crowd.", &format!("{}--crowd.", id.trim_start_matches("dep_")), 1));
    }
    world.edge().get(&url).await.assert_body(200, "home");

    let before = world.edge().process.memory("VmRSS");
    let edge = world.edge();
    for address in &addresses {
        let visits = stream::iter(0..FILES).for_each_concurrent(20, |number| async move {
            edge.head(&format!("{address}/{number}.css")).await.assert_status(200);
        });
        visits.await;
    }
    let growth = world.edge().process.memory("VmRSS").saturating_sub(before);
    assert!(growth < GROWTH, "the edge grew by {growth} bytes for {CROWDS} deployments of {FILES} files");
}

#[tokio::test]
async fn a_stalled_stream_of_each_of_many_deployments_holds_no_manifest() {
    /// Deployments, each with a manifest of some 3 MB.
    const LONG: usize = 40;
    const FILES: usize = 2_500;

    let world = World::builder().set("EDGE__MEMORY", format!("{MEMORY_MIB} MiB")).start().await;
    let ada = world.user("ada").await;
    ada.create_project("long").await;
    let folder = format!("{0}/{0}/{0}", "x".repeat(250));
    let site = (0..FILES)
        .fold(Site::page("a page that is not taken"), |site, number| site.file(&format!("{folder}/{number}.txt"), "x"));
    let mut hosts = Vec::new();
    for _ in 0..LONG {
        let id = ada.deploy("long", &site).await.id;
        hosts.push(format!("{}--long.svc.localhost", id.trim_start_matches("dep_")));
    }
    world.edge().get(&world.site_url("long")).await.assert_body(200, "a page that is not taken");

    let before = world.edge().process.memory("VmRSS");
    let (mut held, mut most) = (Vec::new(), before);
    for (number, host) in hosts.iter().enumerate() {
        let source = attacker(u8::try_from(number).unwrap());
        let mut stalled = Attacker::begin_with(&world, source, host, "/", 1).await.unwrap();
        stalled.await_data().await.unwrap();
        held.push(stalled);
        most = world.edge().process.memory("VmRSS").max(most);
    }
    let growth = most - before;
    assert!(growth < GROWTH, "the edge grew by {growth} bytes for {LONG} stalled streams");
    world.edge().get(&world.site_url("long")).await.assert_body(200, "a page that is not taken");
}
