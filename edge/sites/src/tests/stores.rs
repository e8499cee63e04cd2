//! Reads of the store: which bodies and manifests are cached, and how responses fail while the store does not respond.

use std::{
    pin::pin,
    sync::{Weak, atomic::Ordering::SeqCst},
    task::Poll,
};

use fairness::budget::BudgetLimits;
use http::Request;
use limits::{BLOCK_BYTES, CACHED_BODY_BYTES, LOAD_BYTES, READ_AHEAD_BLOCKS, READ_AHEAD_PACE};

use super::{super::pack::LoadedPack, *};

fn large() -> String {
    "0123456789abcdef".repeat(usize::try_from(CACHED_BODY_BYTES / 16).unwrap() + 10)
}

#[tokio::test]
async fn a_warm_request_reads_nothing() {
    let world = World::new(Folder::of(&["x", "404.html"]));
    let ask = async |target| world.get(target).await.status.as_u16();
    assert_eq!([ask("/x").await, ask("/missing").await], [200, 404]);
    let reads = world.shelf.reads.load(SeqCst);
    world.shelf.away.store(true, SeqCst);
    assert_eq!([ask("/x").await, ask("/missing").await], [200, 404]);
    assert_eq!(world.shelf.reads.load(SeqCst), reads);
}

#[tokio::test]
async fn a_crowd_makes_one_read() {
    let world = World::new(Folder::of(&["x"]));
    let crowd = futures_util::future::join_all((0..100).map(|_| world.get("/x"))).await;
    assert!(crowd.iter().all(|answer| answer.body == "<x>"));
    assert_eq!(world.shelf.reads.load(SeqCst), 2, "the manifest and the body");
}

#[tokio::test]
async fn large_files_are_read_in_steps_while_they_are_sent() {
    let content = large();
    let world = World::new(Folder::default().with("small", "s").with("x", &content));
    let answer = world.get("/x").await;
    assert_eq!(answer.header("content-length"), content.len().to_string());
    assert!(answer.body == content);
    assert_eq!(world.shelf.largest_read.load(SeqCst), BLOCK_BYTES);

    let part = world.send(Request::get("/x").header("range", "bytes=16-31,-2")).await;
    assert_eq!(part.status, 206);
    assert_eq!(part.header("content-length"), part.body.len().to_string());
    assert!(part.body.contains("\r\n\r\n0123456789abcdef\r\n--") && part.body.contains("\r\n\r\nef\r\n--"));

    let request = Request::get("/x").body(Full::new(Bytes::new())).unwrap();
    let (head, sent) = request.into_parts();
    let mut body = world.sites.respond(&head, sent, &world.visit, &world.site).await.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    let reads = world.shelf.reads.load(SeqCst);
    tokio::task::yield_now().await;
    assert_eq!(world.shelf.reads.load(SeqCst), reads, "nothing is read ahead of the visitor");
    world.shelf.away.store(true, SeqCst);
    assert!(read(body).await.is_err(), "a cut file must not look whole");
}

#[tokio::test(start_paused = true)]
async fn who_takes_a_large_file_without_delay_has_more_of_it_read_at_a_time_within_the_budget() {
    let content = "0123456789abcdef".repeat(5_000_000 / 16);
    let (block, most) = (BLOCK_BYTES as u64, READ_AHEAD_BLOCKS * BLOCK_BYTES as u64);
    let world = World::new(Folder::default().with("x", &content));
    let begin = async |account: &BudgetAccount| {
        let request = Request::get("/x").body(Full::new(Bytes::new())).unwrap();
        let (head, sent) = request.into_parts();
        let mut body = world.sites.respond(&head, sent, &world.visit, &world.site).await.into_body();
        body.read_ahead(account);
        body
    };
    let reads = || world.shelf.reads.load(SeqCst);
    let limits = BudgetLimits { total: 10 * most, client: 5 * most, connection: 2 * most };

    let budget = ByteBudget::new(limits);
    let account = budget.account(None);
    let (before, mut taken) = (reads(), Vec::new());
    let mut body = begin(&account).await;
    while let Some(bytes) = std::future::poll_fn(|cx| body.poll_next(cx, BLOCK_BYTES)).await {
        taken.extend(bytes.unwrap());
        assert!(account.used() <= most);
    }
    assert!(taken == content.as_bytes());
    // The manifest, and 81 and a half blocks read as 1, 2, 4, and then 7 each.
    assert_eq!((reads() - before, budget.used()), (1 + 3 + 11, 0));

    // A client that pauses between two blocks gets single blocks, and an idle client holds nothing.
    let before = reads();
    let mut body = begin(&account).await;
    for _ in 0..10 {
        std::future::poll_fn(|cx| body.poll_next(cx, BLOCK_BYTES)).await.unwrap().unwrap();
        tokio::time::advance(2 * READ_AHEAD_PACE).await;
        assert_eq!(account.used(), 0);
    }
    assert_eq!(reads() - before, 10);
    for _ in 0..10 {
        std::future::poll_fn(|cx| body.poll_next(cx, BLOCK_BYTES)).await.unwrap().unwrap();
    }
    assert!(account.used() > block, "{account:?}");
    body.park();
    assert_eq!(account.used(), 0);

    // Others need the memory.
    let _held = account.try_take(most).unwrap();
    let before = reads();
    let mut body = begin(&account).await;
    for _ in 0..10 {
        std::future::poll_fn(|cx| body.poll_next(cx, BLOCK_BYTES)).await.unwrap().unwrap();
    }
    assert_eq!((reads() - before, account.used()), (10, most));
}

#[tokio::test]
async fn a_store_that_fails_is_never_a_404() {
    let world = World::new(Folder::of(&["x", "404.html"]));
    world.shelf.away.store(true, SeqCst);
    for target in ["/x", "/missing"] {
        let answer = world.get(target).await;
        assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (503, "5"), "{target}");
    }
    world.shelf.away.store(false, SeqCst);
    assert_eq!(world.get("/missing").await.brief(), (404, "<404.html>"), "failures are not remembered");
    world.shelf.away.store(true, SeqCst);
    assert_eq!(world.get("/x").await.status, 503, "its body was never read");

    let tabs = World::new(Folder::of(&["x"]));
    assert_eq!(tabs.get("/x").await.status, 200);
    *tabs.shelf.recent.lock().unwrap() = vec![tabs.publish(Folder::of(&["app-h4sh3d1.js"]))];
    tabs.shelf.away.store(true, SeqCst);
    assert_eq!(tabs.get("/app-h4sh3d1.js").await.status, 503);
}

#[tokio::test]
async fn a_pack_that_was_just_deleted_is_a_404() {
    let world = World::new(Folder::of(&["x"]));
    world.shelf.packs.lock().unwrap().clear();
    assert_eq!(world.get("/x").await.brief(), (404, "our page"));
}

#[tokio::test]
async fn bodies_of_many_blocks_arrive_whole_and_part_by_part_also_when_nobody_takes_them_for_a_while() {
    let block = BLOCK_BYTES;
    for len in [1, block - 1, block, block + 1, 3 * block + 7, usize::try_from(LOAD_BYTES).unwrap() + block + 5] {
        let content: String = (0..len).map(|at| char::from(b'a' + u8::try_from(at * 7 % 26).unwrap())).collect();
        let world = World::new(Folder::default().with("first", "moves the others").with("x", &content));
        assert!(world.get("/x").await.body == content, "{len} bytes, read");
        let reads = world.shelf.reads.load(SeqCst);
        assert!(world.get("/x").await.body == content, "{len} bytes, from memory");
        assert_eq!(world.shelf.reads.load(SeqCst), reads);
        let (from, to) = (len / 3, len - 1);
        let part = world.send(Request::get("/x").header("range", format!("bytes={from}-{to}"))).await;
        assert!(part.status == 206 && part.body == content[from..], "{len} bytes from {from} on");

        let request = Request::get("/x").body(Full::new(Bytes::new())).unwrap();
        let (head, sent) = request.into_parts();
        let mut body = world.sites.respond(&head, sent, &world.visit, &world.site).await.into_body();
        let mut taken = Vec::new();
        for most in (1..).map(|step| step * 5_000) {
            body.park();
            match std::future::poll_fn(|cx| body.poll_next(cx, most)).await {
                Some(bytes) => taken.extend(bytes.unwrap()),
                None => break,
            }
        }
        assert!(taken == content.as_bytes(), "{len} bytes, parked in between");
    }
}

async fn evicted(world: &World) -> Weak<LoadedPack> {
    let pack = world.sites.packs.pack(world.site.deployment.as_ref().unwrap(), &world.site.owner).await.unwrap();
    world.sites.packs.forget_manifests();
    Arc::downgrade(&pack)
}

#[tokio::test]
async fn an_answer_under_way_does_not_hold_the_manifest() {
    let medium = "0123456789abcdef".repeat(BLOCK_BYTES / 8);
    let world = World::new(Folder::of(&["small"]).with("medium", &medium).with("large", &large()));
    for (path, range) in [("/small", ""), ("/medium", ""), ("/large", ""), ("/medium", "bytes=1-2,5-9")] {
        let (head, sent) =
            Request::get(path).header("range", range).body(Full::new(Bytes::new())).unwrap().into_parts();
        let answer = world.sites.respond(&head, sent, &world.visit, &world.site).await;
        let pack = evicted(&world).await;
        assert!(pack.upgrade().is_none(), "{path} {range}");
        let mut body = answer.into_body();
        let first = std::future::poll_fn(|cx| body.poll_next(cx, 1)).await;
        body.park();
        assert!(first.unwrap().is_ok() && pack.upgrade().is_none(), "{path} {range}, of which some was taken");
        assert!(read(body).await.is_ok(), "{path} {range}, read to its end");
    }
}

#[tokio::test]
async fn a_request_that_waits_for_the_store_does_not_hold_the_manifest() {
    let world = World::new(Folder::of(&["x", "404.html"]));
    *world.shelf.recent.lock().unwrap() = vec![world.publish(Folder::of(&["app-h4sh3d1.js"]))];
    for target in ["/x", "/missing", "/app-h4sh3d1.js"] {
        world.sites.packs.pack(world.site.deployment.as_ref().unwrap(), &world.site.owner).await.unwrap();
        world.shelf.hangs.store(true, SeqCst);
        let mut waiting = pin!(world.get(target));
        for _ in 0..10 {
            let is_pending = std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await;
            assert!(is_pending, "{target}");
        }
        world.shelf.hangs.store(false, SeqCst);
        assert!(evicted(&world).await.upgrade().is_none(), "{target}");
    }
}
