//! Every case of the upload corpus, through the store itself: the result is the expected one, published content equals
//! the archive's, and a rejected upload leaves nothing behind.

use std::{fs::File, io::Write as _, path::Path};

use corpus::{Case, Expect, Form, Tarball};
use domain::DeploymentId;
use packs::{UploadFormat, WriteError};
use proptest::prelude::*;

use crate::World;

#[tokio::test]
async fn every_upload_gets_the_answer_it_must_get() {
    let world = World::new();
    let mut wrong = Vec::new();
    let cases = corpus::cases();
    for Case { name, form, bytes, expect } in &cases {
        let (id, result) = world.publish_form(bytes, format(*form)).await;
        match (expect, result) {
            (Expect::Files(wanted), Ok(published)) => {
                let manifest = world.store.manifest(&id).await.expect("a manifest");
                let mut wanted = wanted.clone();
                wanted.sort();
                let files: Vec<(String, u64)> =
                    manifest.files.iter().map(|(path, file)| (path.clone(), file.identity.len)).collect();
                let bytes: u64 = files.iter().map(|(_, len)| len).sum();
                if files != wanted || (published.files as usize, published.bytes) != (files.len(), bytes) {
                    wrong.push(format!("{name}: published {files:?}"));
                }
                world.store.remove(&id).await.expect("removed");
            }
            (Expect::Invalid, Err(WriteError::Archive(error))) if !error.is_too_large() => {}
            (Expect::TooLarge, Err(WriteError::Archive(error))) if error.is_too_large() => {}
            (expect, result) => {
                wrong.push(format!("{name}: {result:?} and not {} {:?}", expect.status(), expect.code()));
            }
        }
        let left = world.files();
        assert!(left.is_empty(), "{name} leaves {left:?}");
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    let mut names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases.len(), "two cases have one name");
}

fn format(form: Form) -> UploadFormat {
    match form {
        Form::TarGzip => UploadFormat::TarGzip,
        Form::TarZstd => UploadFormat::TarZstd,
        Form::Zip => UploadFormat::Zip,
    }
}

/// A few files of every kind, to be corrupted.
fn sample() -> Tarball {
    let page = "<p>It works</p>\n".repeat(100);
    Tarball::new()
        .entry(b'5', "./", b"")
        .file("./index.html", page.as_bytes())
        .pax("path", "a/long/name.css")
        .file("x", b"body{}")
        .long_name("another/long/name.js\0")
        .file("y", b"alert(1)")
        .link(b'2', "link", "index.html")
        .file("_headers", b"/*\n  X-A: b\n")
}

#[tokio::test]
async fn an_upload_cut_anywhere_is_refused() {
    let world = World::new();
    let whole = sample().end();
    for cut in 0..whole.len() {
        let (_, result) = world.publish(&whole[..cut]).await;
        assert!(matches!(result, Err(WriteError::Archive(_))), "cut to {cut} of {}: {result:?}", whole.len());
    }
    assert!(world.files().is_empty());
    assert!(world.publish(&whole).await.1.is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever bytes of the tar are changed: a result, no panic, and only complete packs in the store.
    #[test]
    fn a_spoiled_upload_never_leaves_anything(changes in prop::collection::vec((0..6_000_usize, any::<u8>()), 1..6), cut in 0..8_000_usize) {
        let mut tar = gunzip(&sample().end());
        for (at, value) in changes {
            let at = at % tar.len();
            tar[at] = value;
            // Fixes the checksum, so that the change gets past it.
            let block = at / 512 * 512;
            mend(&mut tar[block..block + 512]);
        }
        tar.truncate(cut.max(512));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let world = World::new();
            let (id, result) = world.publish(&corpus::tarball::gzip(&tar)).await;
            match result {
                Ok(_) => {
                    let manifest = world.store.manifest(&id).await.expect("a manifest");
                    for path in manifest.files.keys() {
                        assert!(Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_))), "{path}");
                    }
                    assert_eq!(world.files().len(), 3);
                }
                Err(WriteError::Archive(_)) => assert!(world.files().is_empty()),
                Err(error) => panic!("{error}"),
            }
        });
    }
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut tar = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut tar).expect("gzip");
    tar
}

fn mend(block: &mut [u8]) {
    if block[257..262] == *b"ustar" {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&b| u32::from(b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

#[test]
fn the_sample_of_a_file_can_be_spooled_twice() {
    // Publishing reads the spooled file from its beginning, whatever its position.
    let world = World::new();
    let mut spooled: File = tempfile::tempfile().expect("a file");
    spooled.write_all(&sample().end()).expect("written");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let again = spooled.try_clone().expect("a second handle");
    runtime.block_on(async {
        for spooled in [spooled, again] {
            world
                .store
                .write(&DeploymentId::new(world.now), spooled, UploadFormat::TarGzip, world.now)
                .await
                .expect("published");
        }
    });
}
