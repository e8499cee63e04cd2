//! The figures of attacks in bench/README.md: what an edge with 512 MB of `edge.memory` holds under each, and what another
//! client and another account feel of it meanwhile. Nothing is asserted: `bench/run --only attacks` runs these against optimised
//! programs, and puts the rows that they print into the table with the word whether what is wanted of them is reached.
//!
//! Attackers and the neighbour share the machine with what they attack.

mod attackers;
mod neighbour;

use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use tokio::task::JoinSet;

use self::{
    attackers::{Attack, HOST},
    neighbour::Neighbour,
};
use super::{attacker, held_uploads, pause, platform_floods::open_files, shedding};
use crate::world::{Builder, Site, World, site::noise};

/// The time that an attack lasts.
const LASTS: Duration = Duration::from_mins(1);
/// The time after which an idle connection over HTTP/1.1 is closed, less some: all are opened within it.
const OPENED_WITHIN: Duration = Duration::from_secs(25);
/// Connections that idle, and those of them that one client has.
const IDLE: usize = 15_000;
const IDLE_PER_CLIENT: usize = 500;
/// Connections that are being opened at a time.
const OPENED_AT_ONCE: usize = 64;
/// The time after they have gone at which it is looked what the edge holds still.
const AFTERMATH: Duration = Duration::from_mins(1);
/// Deploys whose time is measured under each attack on uploads.
const DEPLOYS: usize = 10;

const MB: f64 = 1e6;

/// An edge as the figures want it, before which stands a site for the neighbour.
fn builder() -> Builder {
    let builder = World::builder().set("EDGE__MEMORY", "512 MB").set("EDGE__THREADS", 2);
    // Readers over plain HTTP are attackers, too.
    builder.set("EDGE__HTTP_MODE", "serve")
}

#[expect(clippy::print_stdout, reason = "it is read by the bench")]
fn print(row: &str) {
    println!("{row}");
}

/// Prints the row of an attack that lasts for [`LASTS`].
async fn measure<A: Future<Output = Attack>>(name: &str, begin: impl FnOnce(Arc<World>) -> A) {
    let world = Arc::new(builder().start().await);
    world.user("bob").await.publish("neighbour", &Site::page("home")).await;
    let attack = begin(world.clone()).await;
    let neighbour = Neighbour::begin(world.edge(), &world.site_url("neighbour"));
    let mut attackers = JoinSet::new();
    for attacker in attack {
        attackers.spawn(attacker);
    }
    let start = Instant::now();
    let mut most_files = 0;
    while start.elapsed() < LASTS {
        most_files = open_files(world.edge().process.pid()).max(most_files);
        pause(Duration::from_millis(500)).await;
    }
    let felt = neighbour.end();
    attackers.shutdown().await;
    // Of the whole life of the process, at any instant.
    let memory = world.edge().process.memory("VmHWM");
    let mut row = String::new();
    write!(row, "| {name} | {} | {most_files} | {} | {} |", megabytes(memory), felt.requests, felt.failed).unwrap();
    write!(row, " {} | {} |", milliseconds(felt.p99), milliseconds(felt.slowest)).unwrap();
    print(&row);
}

fn megabytes(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let megabytes = bytes as f64 / MB;
    format!("{megabytes:.0}")
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only attacks`"]
async fn f01_header_expansion() {
    measure("F1: a site whose `_headers` make much of long paths", attackers::header_expansion).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only attacks`"]
async fn f02_slow_http2_readers() {
    measure("F2: 3,840 HTTP/2 streams that take nothing", attackers::slow_http2_readers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only attacks`"]
async fn f03_platform_floods() {
    measure("F3: 160 connections of slow bodies for the platform", attackers::platform_floods).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only attacks`"]
async fn f07_heavy_manifests() {
    measure("F7: manifests with many rules and files", attackers::heavy_manifests).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only attacks`"]
async fn f08_silent_connections() {
    measure("F8: 16,000 connections that say nothing, always renewed", attackers::silent_connections).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only attacks`"]
async fn f20_control_frames() {
    measure("F20: floods of PING", attackers::control_frames).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only attacks`"]
async fn f21_slow_http1_readers() {
    measure("F21: 1,000 readers over HTTP/1.1 at a trickle", attackers::slow_http1_readers).await;
}

/// Prints the row of deploys that another account makes meanwhile.
async fn print_deploys(world: &World, attack: &str) {
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let mut times = Vec::new();
    for _ in 0..DEPLOYS {
        let site = Site::page("mine").file("noise.bin", noise(1_000_000));
        let start = Instant::now();
        ada.upload("engine", &site).await.created();
        times.push(start.elapsed());
    }
    times.sort();
    let [median, slowest] = [times[DEPLOYS / 2], times[DEPLOYS - 1]].map(|time| format!("{:.2}", time.as_secs_f64()));
    print(&format!("| {attack} | {DEPLOYS} | {median} | {slowest} |"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only attacks`"]
async fn uploads_held() {
    let world = builder().start().await;
    let mallory = world.user("mallory").await;
    let begun = Arc::default();
    let mut held = JoinSet::new();
    for _ in 0..held_uploads::HELD {
        held.spawn(held_uploads::hold(mallory.clone(), "/shares", Arc::clone(&begun)));
    }
    let some = || begun.load(std::sync::atomic::Ordering::Relaxed) > 0;
    crate::world::eventually(LASTS, "uploads are held", async || some()).await;
    print_deploys(&world, "80 uploads held").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only attacks`"]
async fn uploads_flooded() {
    let world = builder().start().await;
    let mallory = world.user("mallory").await;
    let mut flood = JoinSet::new();
    for tarball in held_uploads::uploads() {
        let mallory = mallory.clone();
        flood.spawn(async move {
            loop {
                let _ = mallory.post("/shares").upload(tarball.clone()).attempt().await;
            }
        });
    }
    let stored = || !world.stored_files().is_empty();
    crate::world::eventually(LASTS, "the flood is being published", async || stored()).await;
    print_deploys(&world, "12 uploads of 24 MB at a time").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only attacks`"]
async fn idle_connections() {
    let world = Arc::new(builder().start().await);
    world.user("ada").await.publish(HOST.trim_end_matches(".svc.localhost"), &Site::page("home")).await;
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "home");
    let before = world.edge().process.memory("VmRSS");
    let start = Instant::now();
    let opened = stream::iter(0..IDLE).map(|number| {
        let (world, number) = (world.clone(), u8::try_from(number / IDLE_PER_CLIENT).unwrap());
        tokio::spawn(async move { shedding::idle(&world, number).await })
    });
    let mut opened: Vec<_> =
        opened.buffer_unordered(OPENED_AT_ONCE).filter_map(|opened| async { opened.ok() }).collect().await;
    let took = start.elapsed();
    let memory = world.edge().process.memory("VmRSS");
    opened.retain(|stream| !super::silent_connections::is_closed(stream.get_ref().0));
    let late = if took > OPENED_WITHIN { ", some of them closed since" } else { "" };
    let count = opened.len();
    drop(opened);
    pause(AFTERMATH).await;
    let after = world.edge().process.memory("VmRSS");
    print(&format!("| {count} | {} | {} | {} |{late}", megabytes(before), megabytes(memory), megabytes(after)));
}
