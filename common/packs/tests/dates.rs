//! Unchanged files keep their dates from one pack to the next.
//!
//! With `SVC_TEST_DATED_FILES=10000` each pack has that many files; with `--nocapture` the time for each is printed.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot be set up has failed; figures are for people"
)]

use std::{io::Write as _, time::Duration};

use corpus::Tarball;
use domain::{Clock, DeploymentId, Timestamp};
use packs::{Manifest, PackStore, PublishRoot, ReadPace, UploadFormat};

/// `_headers` for each manifest format.
const PLAIN: &str = "/*\n  X-A: b\n";
const GUARDED: &str = "/s/*\n  Basic-Auth: ann:her-password\n";

fn store() -> (tempfile::TempDir, PackStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = url::Url::from_directory_path(folder.path()).expect("an absolute path");
    let store = PackStore::open(&config::Store { url, ..config::Store::default() }).expect("a store");
    (folder, store)
}

/// Publishes files that do not change, and one with the content `changing`.
async fn publish(
    store: &PackStore,
    earlier: Option<&DeploymentId>,
    now: Timestamp,
    changing: &str,
) -> (DeploymentId, Manifest) {
    publish_with(store, earlier, now, changing, PLAIN).await
}

/// Like [`publish`], with these `_headers`.
async fn publish_with(
    store: &PackStore,
    earlier: Option<&DeploymentId>,
    now: Timestamp,
    changing: &str,
    headers: &str,
) -> (DeploymentId, Manifest) {
    let files: u32 = std::env::var("SVC_TEST_DATED_FILES").map_or(20, |count| count.parse().expect("a number"));
    let mut tarball = Tarball::new().file("changing", changing.as_bytes()).file("_headers", headers.as_bytes());
    for number in 1..files {
        tarball = tarball.file(format!("pages/{number}.txt"), format!("page {number}").as_bytes());
    }
    let mut spooled = tempfile::tempfile().expect("a file");
    spooled.write_all(&tarball.end()).expect("written");
    let id = DeploymentId::new(now);
    let begun = std::time::Instant::now();
    store.write_root(&id, spooled, UploadFormat::TarGzip, PublishRoot::Archive, earlier, now).await.expect("a pack");
    println!("{files} files, with an earlier pack: {}: {:?}", earlier.is_some(), begun.elapsed());
    let manifest = store.manifest(&id).await.expect("a manifest");
    (id, manifest)
}

#[tokio::test]
async fn an_unchanged_file_keeps_its_date_from_pack_to_pack() {
    let (_folder, store) = store();
    let day = Duration::from_hours(24);
    let first = Clock::system().now();
    let date = |manifest: &Manifest, path: &str| manifest.files[path].modified;
    let (one, manifest) = publish(&store, None, first, "one").await;
    assert_eq!((date(&manifest, "changing"), date(&manifest, "pages/1.txt")), (None, None));
    let (two, manifest) = publish(&store, Some(&one), first + day, "two").await;
    assert_eq!((date(&manifest, "changing"), date(&manifest, "pages/1.txt")), (None, Some(first.unix_seconds())));
    let (_, manifest) = publish(&store, Some(&two), first + day * 2, "two").await;
    assert_eq!(date(&manifest, "changing"), Some((first + day).unix_seconds()));
    assert_eq!(date(&manifest, "pages/1.txt"), Some(first.unix_seconds()));
    // A missing earlier pack makes all files new, but does not fail the upload.
    let (_, manifest) = publish(&store, Some(&DeploymentId::new(first)), first + day * 3, "two").await;
    assert_eq!((date(&manifest, "changing"), date(&manifest, "pages/1.txt")), (None, None));
}

#[tokio::test]
async fn every_reader_reads_every_form_that_is_written() {
    let first = Clock::system().now();
    for (before, after, forms) in [
        (PLAIN, PLAIN, [Manifest::VERSION, Manifest::VERSION]),
        (PLAIN, GUARDED, [Manifest::VERSION, Manifest::GUARDED_VERSION]),
        (GUARDED, PLAIN, [Manifest::GUARDED_VERSION, Manifest::VERSION]),
        (GUARDED, GUARDED, [Manifest::GUARDED_VERSION, Manifest::GUARDED_VERSION]),
    ] {
        let (_folder, store) = store();
        let (_replica_folder, replica) = self::store();
        let (one, earlier) = publish_with(&store, None, first, "one", before).await;
        let (two, manifest) = publish_with(&store, Some(&one), first + Duration::from_hours(1), "two", after).await;
        assert_eq!([earlier.version, manifest.version], forms);
        // The dates come from the earlier pack.
        assert_eq!(manifest.files["pages/1.txt"].modified, Some(first.unix_seconds()), "dates of {forms:?}");
        for id in [&one, &two] {
            // The listing, one file, the replica, and the check of the store.
            assert_eq!(store.files(id, None, 100).await.expect("files").len(), manifest.files.len(), "{forms:?}");
            assert_eq!(store.entries(id, &["changing"]).await.expect("entries").len(), 1, "{forms:?}");
            let copy = store.fetch(id, &mut ReadPace::new(None)).await.expect("a copy");
            replica.put_copy(id, copy).await.expect("copied");
            assert!(replica.manifest(id).await.is_ok() && replica.probe(id).await.is_ok(), "{forms:?}");
            assert!(
                store.check_whole(id, &mut ReadPace::new(None)).await.expect("checked").fault.is_none(),
                "{forms:?}"
            );
        }
        let changes = store.changes(&two, Some(&one), 100).await.expect("compared");
        assert_eq!((changes.changed.count, changes.added.count, changes.removed.count), (1, 0, 0), "{forms:?}");
    }
}

#[tokio::test]
async fn two_contents_of_a_path_never_share_a_date() {
    let (_folder, store) = store();
    let now = Clock::system().now();
    let (mut earlier, mut dates) = (None, Vec::new());
    for content in ["one", "two", "two", "one"] {
        let (id, manifest) = publish(&store, earlier.as_ref(), now, content).await;
        dates.push(manifest.files["changing"].modified.unwrap_or(manifest.created_at) - now.unix_seconds());
        assert!(earlier.is_none() || manifest.files["pages/1.txt"].modified == Some(now.unix_seconds()));
        earlier = Some(id);
    }
    assert_eq!(dates, [0, 1, 1, 3]);
}
