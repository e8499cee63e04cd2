//! A folder of a repository becomes a pack under the rules of every upload, counting only the folder's files.

#![expect(clippy::expect_used, reason = "a test that cannot be set up has failed")]

use std::io::Write as _;

use corpus::{Case, Expect, Form, Tarball};
use domain::{Clock, DeploymentId, limits::MB};
use packs::{PackStore, PublishRoot, UploadFormat, WriteError};

const TOP: &str = "octo-site-6dcb09b/";

fn store() -> (tempfile::TempDir, PackStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = url::Url::from_directory_path(folder.path()).expect("an absolute path");
    let store = PackStore::open(&config::Store { url, ..config::Store::default() }).expect("a store");
    (folder, store)
}

/// Returns the published paths of `directory`, or the reason there are none.
async fn publish(archive: &[u8], directory: &str) -> Result<Vec<String>, WriteError> {
    let (_folder, store) = store();
    let mut spooled = tempfile::tempfile().expect("a file");
    spooled.write_all(archive).expect("written");
    let now = Clock::system().now();
    let id = DeploymentId::new(now);
    let root = PublishRoot::Repository(directory.parse().expect("a directory"));
    let published = store.write_root(&id, spooled, UploadFormat::TarGzip, root, None, now).await?;
    let files: Vec<String> = store.manifest(&id).await.expect("a manifest").files.into_keys().collect();
    assert_eq!(published.files as usize, files.len());
    Ok(files)
}

async fn refusal(archive: &[u8], directory: &str) -> String {
    publish(archive, directory).await.expect_err("refused").to_string()
}

/// Returns an archive as the code host makes it: a global header with the commit, folders, symlinks.
fn repository() -> Tarball {
    let comment = corpus::tarball::pax_record("comment", b"6dcb09b5b57875f334f61aebed695e2e4193db5e");
    Tarball::new()
        .entry(b'g', "pax_global_header", &comment)
        .entry(b'5', TOP, b"")
        .file(format!("{TOP}README.md"), b"read me")
        .entry(b'5', format!("{TOP}dist/"), b"")
        .file(format!("{TOP}dist/index.html"), b"built")
        .link(b'2', &format!("{TOP}dist/link"), "../README.md")
        .file(format!("{TOP}dist/a/b.txt"), b"deep")
}

#[tokio::test]
async fn the_folder_is_published_and_nothing_beside_it() {
    let archive = repository().file(format!("{TOP}distant/x"), b"no").end();
    assert_eq!(publish(&archive, "dist").await.expect("published"), ["a/b.txt", "index.html"]);
    assert_eq!(publish(&archive, "dist/a").await.expect("published"), ["b.txt"]);
    let all = publish(&archive, ".").await.expect("published");
    assert_eq!(all, ["README.md", "dist/a/b.txt", "dist/index.html", "distant/x"]);
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_named() {
    let archive = repository().end();
    for missing in ["public", "dist/index.html", "dis", "dist/a/b.txt"] {
        assert!(refusal(&archive, missing).await.contains(missing));
    }
    assert!(refusal(&Tarball::new().entry(b'5', TOP, b"").end(), ".").await.contains("holds no file"));
}

#[tokio::test]
async fn sizes_and_numbers_count_in_the_folder_alone() {
    let large = usize::try_from(26 * MB).expect("small");
    let beside = repository().zero_file(format!("{TOP}film.mp4"), large).end();
    publish(&beside, "dist").await.expect("published");
    assert!(refusal(&beside, ".").await.contains("larger than 25 MB"));
    let many = (0..10_001).fold(repository(), |archive, n| archive.file(format!("{TOP}src/{n}"), b""));
    let many = many.end();
    publish(&many, "dist").await.expect("published");
    assert!(refusal(&many, ".").await.contains("more than 10000 files"));
}

#[tokio::test]
async fn what_is_passed_over_is_bounded_too() {
    // Ninety files of 24 MB, which gzip shrinks.
    let large = usize::try_from(24 * MB).expect("small");
    let bomb = (0..90).fold(repository(), |archive, n| archive.zero_file(format!("{TOP}zeros/{n}"), large)).end();
    assert!((bomb.len() as u64) < 100 * MB, "{} bytes", bomb.len());
    assert!(refusal(&bomb, "dist").await.contains("the repository is larger than 2 GB"));
}

#[tokio::test]
async fn hostile_paths_are_refused_wherever_they_stand() {
    for path in ["../x", "src/../../x", "src\\x", "/etc/x"] {
        let full = if path.starts_with('/') { path.to_owned() } else { format!("{TOP}{path}") };
        assert!(publish(&repository().file(&full, b"x").end(), "dist").await.is_err(), "{path}");
    }
    assert!(publish(&repository().file("stray", b"x").end(), "dist").await.is_err());
    assert!(publish(&repository().link(b'1', &format!("{TOP}hard"), "x").end(), "dist").await.is_err());
}

/// Whatever is rejected in an upload is rejected in a repository.
#[tokio::test]
async fn every_invalid_upload_is_an_invalid_repository() {
    for Case { name, form, bytes, expect } in corpus::cases() {
        if form == Form::TarGzip && expect == Expect::Invalid {
            assert!(publish(&bytes, ".").await.is_err(), "{name}");
        }
    }
}
