//! Many visitors at once who read what is not in memory: they wait for each other rather than for a thread each.

use std::{fs, net::Ipv4Addr};

use futures_util::future::join_all;
use tokio::io::AsyncReadExt as _;

use super::slow_http1_readers::reader;
use crate::{
    attacks::{MEMORY_MIB, PATIENCE},
    world::{Site, World, site::noise},
};

/// Visitors, the bytes of the file, which are too many to be kept, and what each visitor takes of them.
const VISITORS: usize = 200;
const FILE_BYTES: usize = 5_000_000;
const TAKEN: usize = 600_000;
/// What an edge may have: those that wait for the disk or hash passwords, and some of the runtime and of what watches.
const THREADS: usize = 32 + 16;
/// What the edge may grow by, with a megabyte for every such thread.
const GROWTH: u64 = 96 * 1024 * 1024;

#[tokio::test]
async fn reads_of_the_store_take_no_thread_each() {
    let large = noise(FILE_BYTES);
    let world =
        World::builder().set("EDGE__MEMORY", format!("{MEMORY_MIB} MiB")).set("EDGE__HTTP_MODE", "serve").start().await;
    let ada = world.user("ada").await;
    ada.publish("album", &Site::page("home").file("large.jpg", &large)).await;
    world.edge().get(&world.site_url("album")).await.assert_body(200, "home");
    let pid = world.edge().process.pid();
    let before = world.edge().process.memory("VmRSS");
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();

    let port = world.edge().http_port;
    let visits = (0..VISITORS).map(|_| async {
        let mut stream = reader(Ipv4Addr::LOCALHOST, port, "album.svc.localhost").await.unwrap();
        let (mut taken, mut part) = (0, vec![0; 64 * 1024]);
        while taken < TAKEN {
            taken += tokio::time::timeout(PATIENCE, stream.read(&mut part)).await.expect("a visitor waits").unwrap();
        }
        // A thread without work stays for some seconds.
        threads()
    });
    let most = join_all(visits).await.into_iter().max().unwrap();
    assert!(most <= THREADS, "the edge had {most} threads");
    let growth = world.edge().process.memory("VmHWM").saturating_sub(before);
    assert!(growth < GROWTH, "the edge grew by {} MB", growth / 1_000_000);
}
