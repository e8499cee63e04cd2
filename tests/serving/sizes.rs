//! Large files and empty ones.

use super::{both_versions, world_with};
use crate::world::{Site, site::noise};

#[tokio::test]
async fn large_files_arrive_whole() {
    let body = noise(20 * 1024 * 1024);
    let (world, url) = world_with(Site::page("x").file("large.bin", &body)).await;
    let file = format!("{url}/large.bin");
    both_versions(world.edge(), &file).await.assert_body(200, &body);
    let tail = world.edge().get(&file).header("range", "bytes=20000000-20000099").await;
    tail.assert_body(206, &body[20_000_000..20_000_100]);
    let many = (0..8).map(|_| async { world.edge().get(&file).await.body.len() });
    assert!(futures_util::future::join_all(many).await.into_iter().all(|len| len == body.len()));
}

#[tokio::test]
async fn an_empty_file_is_a_file() {
    let (world, url) = world_with(Site::page("x").file("empty.txt", "")).await;
    let answer = both_versions(world.edge(), &format!("{url}/empty.txt")).await.assert_body(200, "");
    assert_eq!(answer.header("content-length"), "0");
    let ranged = world.edge().get(&format!("{url}/empty.txt")).header("range", "bytes=0-0").await.assert_status(416);
    assert_eq!(ranged.header("content-range"), "bytes */0");
}
