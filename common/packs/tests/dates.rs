//! A file that an upload does not change keeps its date, from one pack to the next.
//!
//! `SVC_TEST_DATED_FILES=10000` has the packs hold that many files; with `--nocapture` the time that each took is printed.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot be set up has failed; figures are for people"
)]

use std::{io::Write as _, time::Duration};

use corpus::Tarball;
use domain::{Clock, DeploymentId, Timestamp};
use packs::{Format, Manifest, PackStore, Root};

fn store() -> (tempfile::TempDir, PackStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = url::Url::from_directory_path(folder.path()).expect("an absolute path");
    let store = PackStore::open(&config::Store { url, ..config::Store::default() }).expect("a store");
    (folder, store)
}

/// Publishes files that do not change, and one that says `changing`.
async fn publish(
    store: &PackStore,
    earlier: Option<&DeploymentId>,
    now: Timestamp,
    changing: &str,
) -> (DeploymentId, Manifest) {
    let files: u32 = std::env::var("SVC_TEST_DATED_FILES").map_or(20, |count| count.parse().expect("a number"));
    let mut tarball = Tarball::new().file("changing", changing.as_bytes());
    for number in 1..files {
        tarball = tarball.file(format!("pages/{number}.txt"), format!("page {number}").as_bytes());
    }
    let mut spooled = tempfile::tempfile().expect("a file");
    spooled.write_all(&tarball.end()).expect("written");
    let id = DeploymentId::new(now);
    let begun = std::time::Instant::now();
    store.write_root(&id, spooled, Format::TarGzip, Root::Archive, earlier, now).await.expect("a pack");
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
    // A pack that is not there makes all files new, and no upload fail.
    let (_, manifest) = publish(&store, Some(&DeploymentId::new(first)), first + day * 3, "two").await;
    assert_eq!((date(&manifest, "changing"), date(&manifest, "pages/1.txt")), (None, None));
}
