//! Feeds the reader of uploads: as they come; gzipped first, so that the tar inside is reached; and with the checksums of
//! its headers mended, so that what they say is reached.
//!
//! It must neither panic nor give out a path that leads anywhere, nor more than the limits allow.

#![no_main]

use std::io::{Read, Write as _};

use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;
use packs::archive::{Archive, Member};

/// Of a tar archive.
const BLOCK: usize = 512;

fuzz_target!(|input: &[u8]| {
    walk(input);
    walk(&gzip(input)[..]);
    let mut mended = input.to_vec();
    mended.resize(input.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    mended.chunks_exact_mut(BLOCK).for_each(mend);
    walk(&gzip(&mended)[..]);
});

fn walk(upload: impl Read) {
    let mut archive = Archive::new(upload);
    let mut files = 0;
    let mut chunk = [0; 4_096];
    while let Ok(Some(member)) = archive.next_file() {
        let (Member::File(path) | Member::Link { path, .. }) = member;
        files += 1;
        assert!(files <= 10_000);
        assert!(path.split('/').all(|segment| !matches!(segment, "" | "." | "..")), "{path:?}");
        assert!(!path.contains(['\\', '\0', '\n']), "{path:?}");
        while archive.read(&mut chunk).is_ok_and(|read| read > 0) {}
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
    gzip.write_all(bytes).expect("memory");
    gzip.finish().expect("memory")
}

/// Gives a block the checksum that makes it a header; blocks of zeros end the archive and stay.
fn mend(block: &mut [u8]) {
    if block.iter().any(|&byte| byte != 0) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}
