//! Feeds the reader of uploads: as they come, in every form; as the tar archive in one; and with the checksums of its headers
//! mended, so that what they say is reached.
//!
//! It must neither panic nor give out a path that leads anywhere, nor more than the limits allow.

#![no_main]

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;
use packs::archive::{Archive, Format, Member};

/// Of a tar archive.
const BLOCK: usize = 512;

fuzz_target!(|input: &[u8]| {
    for format in [Format::TarGzip, Format::TarZstd, Format::Zip] {
        walk(input, format);
    }
    walk(&gzip(input), Format::TarGzip);
    let mut mended = input.to_vec();
    mended.resize(input.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    mended.chunks_exact_mut(BLOCK).for_each(mend);
    walk(&gzip(&mended), Format::TarGzip);
});

fn walk(upload: &[u8], format: Format) {
    let mut files = 0;
    let mut chunk = [0; 4_096];
    let read = Archive::new(upload, format).read(|member| {
        let path = match member {
            Member::File { path, body, .. } => {
                while body.read(&mut chunk)? > 0 {}
                path
            }
            Member::Link { path, .. } => path,
        };
        files += 1;
        assert!(path.split('/').all(|segment| !matches!(segment, "" | "." | "..")), "{path:?}");
        assert!(!path.contains(['\\', '\0', '\n']), "{path:?}");
        Ok(())
    });
    if let Ok(summary) = read {
        assert!((1..=10_000).contains(&summary.files) && summary.files <= files);
        assert!(summary.bytes <= 250 * 1024 * 1024);
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
