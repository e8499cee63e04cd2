//! A pack from upload to removal: uploaded files can be read back, in every form they are stored in.

use std::io::{Read as _, Write as _};

use corpus::Tarball;
use domain::DeploymentId;
use packs::{Encoding, FileEntry, Manifest, Span, StoreError, UploadFormat, WrittenPack};

use crate::World;

async fn publish(world: &World, tarball: Tarball) -> (DeploymentId, Manifest, WrittenPack) {
    let (id, published) = world.publish(&tarball.end()).await;
    let manifest = world.store.manifest(&id).await.expect("a manifest");
    (id, manifest, published.expect("published"))
}

async fn read(world: &World, id: &DeploymentId, span: Span) -> Vec<u8> {
    world.store.read(id, span.offset, span.len).await.expect("read").to_vec()
}

fn decoded(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    match encoding {
        Encoding::Zstd => body = zstd::decode_all(bytes).expect("zstd"),
        Encoding::Br => drop(brotli::Decompressor::new(bytes, 4_096).read_to_end(&mut body).expect("br")),
        Encoding::Gzip => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut body).expect("gzip")),
    }
    body
}

fn encodings(file: &FileEntry) -> Vec<Encoding> {
    let mut encodings: Vec<Encoding> = file.variants.iter().map(|(encoding, _)| *encoding).collect();
    encodings.sort_unstable();
    encodings
}

#[tokio::test]
async fn a_replaced_content_is_neither_stored_nor_billed() {
    let world = World::new();
    let page = |text: &str| format!("<p>{text}</p>\n").repeat(2_000).into_bytes();
    let old = || Tarball::new().file("first.html", &page("first")).file("index.html", &page("old and long"));
    let rest = |tarball: Tarball| tarball.file("last.html", &page("last")).file("index.html", &page("new"));
    let (_, _, plain) = publish(&world, rest(Tarball::new().file("first.html", &page("first")))).await;
    let (id, manifest, published) = publish(&world, rest(old())).await;
    assert_eq!((published.files, published.stored_bytes), (3, plain.stored_bytes));
    assert_eq!(published.warnings.len(), 1, "{:?}", published.warnings);
    for (path, text) in [("first.html", "first"), ("last.html", "last"), ("index.html", "new")] {
        let file = &manifest.files[path];
        assert_eq!(read(&world, &id, file.identity).await, page(text), "{path}");
        assert_eq!(file.variants.len(), 3);
        for &(encoding, span) in &file.variants {
            assert_eq!(decoded(encoding, &read(&world, &id, span).await), page(text), "{path} as {encoding:?}");
        }
    }
}

#[tokio::test]
async fn a_site_of_the_largest_size_may_hold_a_file_twice() {
    const FILE: usize = 25 * 1024 * 1024;
    let world = World::new();
    let largest = || (0..10).fold(Tarball::new(), |tarball, n| tarball.zero_file(format!("{n}"), FILE));
    let (_, _, published) = publish(&world, largest().zero_file("0", FILE)).await;
    assert_eq!((published.files, published.bytes), (10, 10 * FILE as u64));
}

#[tokio::test]
async fn a_hard_link_counts_as_what_its_name_says() {
    let world = World::new();
    let rules = b"User-agent: *\nDisallow: /private/\n";
    let site = || Tarball::new().file("index.html", b"x");
    let (_, plain, _) = publish(&world, site().file("robots.txt", rules)).await;
    let (_, linked, _) = publish(&world, site().file("rules.txt", rules).link(b'1', "robots.txt", "rules.txt")).await;
    assert_eq!(linked.robots, plain.robots);
    assert!(!linked.robots.is_empty());
    let page = b"<!doctype html><link rel=stylesheet href=/a.css>";
    let (_, manifest, _) = publish(&world, site().file("page", page).link(b'1', "page.html", "page")).await;
    assert!(manifest.files["page.html"].loads_parts);
}

#[tokio::test]
async fn what_may_not_have_been_meant_is_said() {
    let world = World::new();
    let key = b"-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n";
    let site = Tarball::new()
        .file("dist/index.html", b"x")
        .file("dist/a/index.html", b"x")
        .file(".env", b"A=b")
        .file("dist/tls.pem", key)
        .file("dist/ca.pem", b"-----BEGIN CERTIFICATE-----");
    let (_, manifest, published) = publish(&world, site).await;
    assert_eq!((published.files, manifest.files.len()), (5, 5));
    let [index, environment, keys] = &published.warnings[..] else { panic!("{:?}", published.warnings) };
    assert!(index.contains("was `dist` meant?"), "{index}");
    assert!(environment.contains("`.env` is published"), "{environment}");
    assert!(keys.contains("`dist/tls.pem` is published") && keys.contains("private keys"), "{keys}");
}

#[tokio::test]
async fn every_form_of_every_file_can_be_read_back() {
    let world = World::new();
    let bodies: Vec<(String, Vec<u8>)> = (0..60)
        .map(|n: usize| {
            (format!("docs/page-{n}.html"), format!("<p>page {n}</p>\n").repeat(n * n * 10 + 1).into_bytes())
        })
        .collect();
    let tarball = bodies.iter().fold(Tarball::new(), |tarball, (path, body)| tarball.file(path, body));
    let (id, manifest, published) = publish(&world, tarball).await;
    assert_eq!((published.files, manifest.files.len()), (60, 60));
    for (path, body) in &bodies {
        let file = &manifest.files[path];
        assert_eq!(&read(&world, &id, file.identity).await, body, "{path}");
        if body.len() >= 256 {
            assert_eq!(encodings(file), [Encoding::Zstd, Encoding::Br, Encoding::Gzip], "{path}");
        }
        for &(encoding, span) in &file.variants {
            assert!(span.len < file.identity.len);
            assert_eq!(&decoded(encoding, &read(&world, &id, span).await), body, "{path} as {encoding:?}");
        }
    }
}

#[tokio::test]
async fn a_content_is_stored_once_and_only_what_shrinks_is_compressed() {
    let world = World::new();
    let page = b"<p>the same</p>\n".repeat(100);
    let noise: Vec<u8> = (0..40_000_u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let (_, manifest, published) = publish(
        &world,
        Tarball::new()
            .file("a.html", &page)
            .file("b/c.html", &page)
            .file("same.bin", &page)
            .file("photo.jpg", &page[1..])
            .file("small.html", b"<p>small</p>")
            .file("noise.txt", &noise),
    )
    .await;
    let files = &manifest.files;
    assert_eq!(files["a.html"].identity, files["b/c.html"].identity);
    assert_eq!(files["a.html"].identity, files["same.bin"].identity);
    assert_eq!(files["a.html"].sha256, files["same.bin"].sha256);
    assert_eq!(encodings(&files["b/c.html"]).len(), 3);
    for path in ["photo.jpg", "small.html"] {
        assert_eq!(encodings(&files[path]), [], "{path}");
    }
    assert_eq!(files["noise.txt"].content_type, "text/plain");
    assert_eq!(published.bytes, files.values().map(|file| file.identity.len).sum::<u64>());
}

#[tokio::test]
async fn rules_are_compiled_and_never_served() {
    let world = World::new();
    let (_, manifest, published) = publish(
        &world,
        Tarball::new()
            .file("_headers", b"/*\n  X-A: b\n  nonsense\n")
            .file("_redirects", b"/old /new 301\n/bad\n")
            .file("index.html", b"x")
            .file("sub/_headers", b"for the service and for nobody else"),
    )
    .await;
    assert_eq!(manifest.files.keys().collect::<Vec<_>>(), ["index.html"]);
    assert_eq!(manifest.unserved.keys().collect::<Vec<_>>(), ["_headers", "_redirects"]);
    assert_eq!((manifest.headers.len(), manifest.redirects.len()), (1, 1));
    assert_eq!(published.files, 3);
    assert_eq!(
        published.warnings,
        [
            "`sub/_headers` was left out, without effect: the rules of a site are in one file, called `_headers`, at its root",
            "_headers line 3: a header has the form `Name: value`",
            "_redirects line 2: a rule has the form `from [name=value] to [status] [Country=…] [Language=…]`"
        ]
    );
}

#[tokio::test]
async fn a_file_that_comes_again_is_published_as_it_came_last() {
    let world = World::new();
    let (id, manifest, published) = publish(
        &world,
        Tarball::new()
            .file("index.html", b"old")
            .file("same.txt", b"same")
            .file("_redirects", b"/old /new 301\n")
            .file("_headers", b"/*\n  X-A: b\n")
            .file("._index.html", b"junk")
            .file("a/.DS_Store", b"more junk")
            .file("./index.html", b"new page")
            .file("same.txt", b"same")
            .file("_redirects", b"/old /newer 301\n")
            .file("_headers", b"/*\n  X-A: b\n"),
    )
    .await;
    assert_eq!(manifest.files.keys().collect::<Vec<_>>(), ["index.html", "same.txt"]);
    assert_eq!(read(&world, &id, manifest.files["index.html"].identity).await, b"new page");
    assert_eq!((manifest.redirects.len(), &*manifest.redirects[0].to), (1, "/newer"));
    assert_eq!(read(&world, &id, manifest.unserved["_redirects"].identity).await, b"/old /newer 301\n");
    assert_eq!((published.files, published.bytes), (4, 8 + 4 + 16 + 12));
    assert_eq!(
        published.warnings,
        [
            "`._index.html` and one more file were not published: systems make such files for themselves",
            "`index.html` is in the archive more than once, with different contents: the last one is published",
            "`_redirects` is in the archive more than once, with different contents: the last one is published",
        ]
    );
}

async fn listed(world: &World) -> Vec<DeploymentId> {
    world.store.page(None, 10).await.expect("listed").into_iter().map(|pack| pack.id).collect()
}

#[tokio::test]
async fn packs_are_listed_removed_and_never_overwritten() {
    let world = World::new();
    let (id, manifest, _) = publish(&world, Tarball::new().file("a", b"1")).await;
    assert_eq!(listed(&world).await, std::slice::from_ref(&id));

    let mut again = tempfile::tempfile().expect("a file");
    again.write_all(&Tarball::new().file("a", b"2").end()).expect("written");
    assert!(world.store.write(&id, again, UploadFormat::TarGzip, world.now).await.is_err());
    assert_eq!(world.store.manifest(&id).await.expect("still there"), manifest);

    world.store.remove(&id).await.expect("removed");
    world.store.remove(&id).await.expect("removing twice is fine");
    assert!(matches!(world.store.manifest(&id).await, Err(StoreError::NotFound)));
    assert!(matches!(world.store.read(&id, 0, 1).await, Err(StoreError::NotFound)));
    assert_eq!(listed(&world).await, []);
}

#[tokio::test]
async fn pages_follow_the_ids_and_end() {
    let world = World::new();
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(publish(&world, Tarball::new().file("a", &[n])).await.0);
    }
    ids.sort();
    let page = async |after: Option<&DeploymentId>| {
        let page = world.store.page(after, 2).await.expect("a page");
        page.into_iter().map(|pack| pack.id).collect::<Vec<_>>()
    };
    assert_eq!(page(None).await, ids[..2]);
    assert_eq!(page(Some(&ids[1])).await, ids[2..4]);
    assert_eq!(page(Some(&ids[3])).await, ids[4..]);
    assert_eq!(page(Some(&ids[4])).await, []);
}

#[tokio::test]
async fn a_pack_in_the_trash_is_not_served_and_comes_back_whole() {
    let world = World::new();
    let (id, manifest, written) = publish(&world, Tarball::new().file("a", b"12345")).await;
    assert!(world.store.trash(&id).await.expect("moved"));
    assert!(world.store.trash(&id).await.expect("moving twice is fine"), "it is in the trash");
    assert!(
        !world.store.trash(&DeploymentId::new(world.now)).await.expect("what is not there is moved"),
        "it is nowhere"
    );
    assert!(matches!(world.store.manifest(&id).await, Err(StoreError::NotFound)));
    assert!(matches!(world.store.read(&id, 0, 1).await, Err(StoreError::NotFound)));
    assert_eq!(listed(&world).await, []);
    let trashed = world.store.trash_page(None, 10).await.expect("the trash");
    assert_eq!((trashed.len(), &trashed[0].id, trashed[0].is_whole), (1, &id, true));
    assert_eq!(trashed[0].bytes, written.stored_bytes);
    let age = world.store.now().await.expect("a clock").since(trashed[0].trashed_at);
    assert!(age < std::time::Duration::from_mins(1), "{age:?}");

    world.store.restore(&id).await.expect("restored");
    assert_eq!(world.store.manifest(&id).await.expect("it is back"), manifest);
    assert_eq!(world.store.read(&id, 1, 3).await.expect("read"), "234");
    assert_eq!(world.store.trash_page(None, 10).await.expect("the trash"), []);
    assert!(matches!(world.store.restore(&id).await, Err(StoreError::NotFound)));

    world.store.trash(&id).await.expect("moved");
    world.store.purge(&id).await.expect("purged");
    world.store.purge(&id).await.expect("purging twice is fine");
    assert!(matches!(world.store.restore(&id).await, Err(StoreError::NotFound)));
}

#[tokio::test]
async fn a_store_that_was_copied_while_a_pack_moved_has_it_once_in_the_end() {
    let world = World::new();
    let (id, manifest, _) = publish(&world, Tarball::new().file("a", b"1")).await;
    let (place, trashed) = (world.deployments().join(id.as_str()), world.folder.path().join("trash").join(id.as_str()));
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        std::fs::create_dir_all(to).expect("a folder");
        for name in ["data", "manifest"] {
            std::fs::copy(from.join(name), to.join(name)).expect("copied");
        }
    };
    copy(&place, &trashed);
    assert!(world.store.trash(&id).await.expect("moved"));
    copy(&trashed, &place);
    world.store.restore(&id).await.expect("restored");
    assert_eq!(world.store.manifest(&id).await.expect("it is back"), manifest);
    assert!(!trashed.exists());
}

#[tokio::test]
async fn a_read_past_the_end_is_an_error() {
    let world = World::new();
    let (id, ..) = publish(&world, Tarball::new().file("a", b"12345")).await;
    assert_eq!(world.store.read(&id, 1, 3).await.expect("read"), "234");
    assert!(matches!(world.store.read(&id, 3, 3).await, Err(StoreError::Damaged(_))));
}
