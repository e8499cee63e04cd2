//! Serving lost or damaged packs: the right bytes, or none.

use std::sync::atomic::Ordering::SeqCst;

use http::Request;
use limits::{BLOCK_BYTES, CACHED_BODY_BYTES, FAULT_LIFE};

use super::*;

fn text(len: usize) -> String {
    (0..len).map(|at| char::from(b'a' + u8::try_from((at / 7 + at % 11) % 26).unwrap())).collect()
}

/// A small file with a variant, one of several blocks, and one too large for the cache.
fn folder() -> Folder {
    let large = usize::try_from(CACHED_BODY_BYTES).unwrap() + 3 * BLOCK_BYTES + 5;
    Folder::default()
        .with("small.js", "small")
        .variant("small.js", Encoding::Zstd, "shorter")
        .with("medium", &text(5 * BLOCK_BYTES + 9))
        .with("large", &text(large))
        .with("404.html", "nothing here")
}

impl World {
    fn live(&self) -> DeploymentId {
        self.site.deployment.clone().unwrap()
    }

    fn flip(&self, offset: u64) {
        let mut packs = self.shelf.packs.lock().unwrap();
        packs.get_mut(&self.live()).unwrap().1[usize::try_from(offset).unwrap()] ^= 1;
    }

    fn span(&self, path: &str, form: usize) -> Span {
        let packs = self.shelf.packs.lock().unwrap();
        packs[&self.live()].0.files[path].bodies().nth(form).unwrap().1.span
    }

    fn replicate(&self) {
        *self.replica.packs.lock().unwrap() = self.shelf.packs.lock().unwrap().clone();
    }

    /// Returns status and body; `None` if the response was cut.
    async fn bytes(&self, request: Builder) -> (u16, Option<String>) {
        let (head, sent) = request.body(Full::new(Bytes::new())).unwrap().into_parts();
        let (parts, body) = self.sites.respond(&head, sent, &self.visit, &self.site).await.into_parts();
        (parts.status.as_u16(), read(body).await.ok())
    }
}

#[tokio::test]
async fn a_pack_that_is_lost_is_a_503_and_asked_for_once_in_a_while() {
    let world = World::new(Folder::of(&["x"]));
    world.shelf.keeps.store(true, SeqCst);
    let packs = std::mem::take(&mut *world.shelf.packs.lock().unwrap());
    for _ in 0..10 {
        let answer = world.get("/x").await;
        assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (503, "5"));
    }
    assert_eq!((world.shelf.looks.load(SeqCst), world.shelf.reads.load(SeqCst)), (1, 1));
    *world.shelf.packs.lock().unwrap() = packs;
    tokio::time::pause();
    tokio::time::advance(FAULT_LIFE).await;
    assert_eq!(world.get("/x").await.brief(), (200, "<x>"), "it is back");
}

#[tokio::test]
async fn a_flipped_byte_is_never_served() {
    let right: BTreeMap<&str, String> =
        [("small.js", "small".to_owned()), ("medium", text(5 * BLOCK_BYTES + 9))].into();
    for (path, form, at) in [("small.js", 0, 2), ("small.js", 1, 6), ("medium", 0, 0), ("medium", 0, 4 * BLOCK_BYTES)] {
        let world = World::new(folder());
        let span = world.span(path, form);
        world.flip(span.offset + at as u64);
        let mut request = Request::get(format!("/{path}"));
        if form == 1 {
            request = request.header("accept-encoding", "zstd");
        }
        let reads = world.shelf.reads.load(SeqCst);
        assert_eq!(world.bytes(request).await.0, 503, "{path} {form} {at}");
        assert_eq!(world.shelf.reads.load(SeqCst) - reads, 4, "manifest, two reads, and the manifest for the log");
        if form == 1 {
            assert_eq!(world.bytes(Request::get("/small.js")).await, (200, Some("small".into())), "the other form");
        } else if form == 0 && path == "small.js" {
            assert_eq!(world.bytes(Request::get("/medium")).await, (200, Some(right["medium"].clone())));
        }
    }
}

#[tokio::test]
async fn ranges_of_a_large_file_are_served_where_its_blocks_are_right_and_cut_where_they_are_not() {
    let world = World::new(folder());
    let span = world.span("large", 0);
    let content = text(usize::try_from(span.len).unwrap());
    let block = BLOCK_BYTES as u64;
    world.flip(span.offset + 20 * block + 7);
    let (status, body) = world.bytes(Request::get("/large")).await;
    assert_eq!((status, body), (200, None), "cut");
    for (from, to, is_right) in [
        (0, 20 * block - 1, true),
        (19 * block + 5, 20 * block, false),
        (20 * block, 20 * block, false),
        (21 * block - 1, 21 * block + 3, false),
        (21 * block, 21 * block, true),
        (21 * block + 1, span.len - 1, true),
    ] {
        let (status, body) = world.bytes(Request::get("/large").header("range", format!("bytes={from}-{to}"))).await;
        let part = &content[usize::try_from(from).unwrap()..=usize::try_from(to).unwrap()];
        // The first block is read before the head is sent.
        if from / block == 20 {
            assert_eq!(status, 503, "{from} to {to}");
            continue;
        }
        assert_eq!(status, 206);
        assert_eq!(body.as_deref() == Some(part), is_right, "{from} to {to}");
        assert_eq!(body.is_some(), is_right, "{from} to {to}");
    }
}

#[tokio::test]
async fn data_that_is_gone_or_cut_is_a_503_also_where_the_manifest_is_remembered() {
    let world = World::new(folder());
    world.shelf.keeps.store(true, SeqCst);
    assert_eq!(world.get("/small.js").await.status, 200);
    world.shelf.packs.lock().unwrap().get_mut(&world.live()).unwrap().1.truncate(30);
    assert_eq!(world.get("/small.js").await.status, 200, "from memory");
    assert_eq!(world.get("/medium").await.status, 503);
    world.shelf.packs.lock().unwrap().clear();
    assert_eq!(world.get("/missing").await.status, 503, "its 404 page is lost");
    assert_eq!(world.bytes(Request::get("/large")).await.0, 503, "its first block is lost");
}

#[tokio::test]
async fn what_is_lost_or_damaged_comes_from_the_replica() {
    let world = World::new(folder());
    world.shelf.keeps.store(true, SeqCst);
    world.replicate();
    let large = world.span("large", 0);
    world.flip(large.offset + 3);
    world.flip(world.span("small.js", 0).offset);
    assert_eq!(world.bytes(Request::get("/small.js")).await, (200, Some("small".into())));
    let right = text(usize::try_from(large.len).unwrap());
    assert!(world.bytes(Request::get("/large")).await == (200, Some(right.clone())));
    world.shelf.packs.lock().unwrap().clear();
    world.sites.packs.forget_manifests();
    assert_eq!(world.get("/missing").await.brief(), (404, "nothing here"));
    assert!(world.bytes(Request::get("/large")).await == (200, Some(right)));
    // A replica that is damaged too serves nothing.
    world.replica.packs.lock().unwrap().get_mut(&world.live()).unwrap().1.fill(0);
    assert_eq!(world.bytes(Request::get("/medium")).await.0, 503);
}

#[tokio::test]
async fn a_recent_pack_that_is_lost_or_damaged_lends_nothing_and_hurts_nobody() {
    let world = World::new(Folder::of(&["x", "404.html"]));
    world.shelf.keeps.store(true, SeqCst);
    let damaged = world.publish(Folder::of(&["app-h4sh3d1.js"]));
    world.shelf.packs.lock().unwrap().get_mut(&damaged).unwrap().1[0] ^= 1;
    let lender = world.publish(Folder::of(&["app-h4sh3d1.js", "old-h4sh3d1.js"]));
    let lost = DeploymentId::new(now());
    *world.shelf.recent.lock().unwrap() = vec![lost, damaged, lender];
    assert_eq!(world.get("/app-h4sh3d1.js").await.brief(), (200, "<app-h4sh3d1.js>"));
    assert_eq!(world.get("/old-h4sh3d1.js").await.brief(), (200, "<old-h4sh3d1.js>"));
    assert_eq!(world.get("/new-h4sh3d1.js").await.brief(), (404, "<404.html>"));
}

#[tokio::test]
async fn packs_without_digests_of_blocks_are_checked_by_what_they_have() {
    let medium = text(3 * BLOCK_BYTES);
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, medium.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let world = || {
        let mut folder =
            Folder::default().with("small", "small").with("medium", &medium).with("large", &text(4_300_000));
        let span = folder.store(&gzip);
        folder.files.get_mut("medium").unwrap().variants.push((Encoding::Gzip, span));
        folder.files.values_mut().for_each(|file| file.digests.clear());
        World::new(folder)
    };
    let coded = || Request::get("/medium").header("accept-encoding", "gzip");
    let sound = world();
    assert_eq!(sound.bytes(Request::get("/small")).await, (200, Some("small".into())));
    assert_eq!(sound.bytes(Request::get("/medium")).await, (200, Some(medium.clone())));
    let (head, sent) = coded().body(Full::new(Bytes::new())).unwrap().into_parts();
    let answer = sound.sites.respond(&head, sent, &sound.visit, &sound.site).await;
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    assert!(answer.into_body().collect().await.unwrap().to_bytes() == gzip);
    let tail = sound.bytes(Request::get("/medium").header("range", "bytes=-9")).await;
    assert_eq!(tail, (206, Some(medium[3 * BLOCK_BYTES - 9..].to_owned())));
    assert_eq!(sound.bytes(Request::get("/large")).await.1.map(|body| body.len()), Some(4_300_000));

    let damaged = world();
    for (path, form) in [("small", 0), ("medium", 0), ("medium", 1)] {
        let span = damaged.span(path, form);
        damaged.flip(span.offset + span.len - 2);
    }
    for request in [Request::get("/small"), Request::get("/medium"), coded()] {
        assert_eq!(damaged.bytes(request).await.0, 503);
    }
}
