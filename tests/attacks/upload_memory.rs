//! Uploads that unpack to much: the memory that they take is bounded, and goes back to the machine.
//!
//! The bounds are wide: what was measured with one allocator and with another is in bench/README.md.

use futures_util::{StreamExt as _, stream};

use crate::world::{Site, World, eventually};

const MB: u64 = 1024 * 1024;
/// Uploads in all, and of them at a time.
const UPLOADS: usize = 6;
const AT_ONCE: usize = 4;
/// Pages of an upload, and the size of each.
const PAGES: usize = 6;
const PAGE_BYTES: usize = 16 * 1024 * 1024;
/// What admin may have in memory while they are published, and some time after.
const PEAK: u64 = 500 * MB;
const REST: u64 = 250 * MB;

#[tokio::test]
async fn memory_of_uploads_is_bounded_and_given_back() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let mut site = Site::page("many pages");
    for page in 0..PAGES {
        let line = format!("<p>Page {page} says much of the same.</p>\n");
        site = site.file(&format!("{page}.html"), line.repeat(PAGE_BYTES / line.len()));
    }
    let tarball = site.tarball();
    let uploads = stream::iter(0..UPLOADS).map(|_| ada.post("/shares").upload(tarball.clone()));
    let answers: Vec<_> =
        uploads.map(|upload| async { upload.await.created() }).buffer_unordered(AT_ONCE).collect().await;
    assert_eq!(answers.len(), UPLOADS);
    let peak = world.admin.memory("VmHWM");
    assert!(peak < PEAK, "publishing took {} MB", peak / MB);
    eventually(crate::BACKGROUND, "memory is given back", async || {
        // A little work: allocators give memory back when they are asked for some.
        ada.get("/me").await.ok();
        world.admin.memory("VmRSS") < REST
    })
    .await;
}
