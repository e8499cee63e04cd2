//! Feeds the reader of uploads: as they come, and gzipped first, so that the tar inside is reached.
//!
//! It must neither panic nor give out a path that leads anywhere, nor more than the limits allow.

#![no_main]

use std::io::{Read, Write as _};

use common::store::archive::Archive;
use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    walk(input);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
    gzip.write_all(input).expect("memory");
    walk(&gzip.finish().expect("memory")[..]);
});

fn walk(upload: impl Read) {
    let mut archive = Archive::new(upload);
    let mut files = 0;
    let mut chunk = [0; 4_096];
    while let Ok(Some(path)) = archive.next_file() {
        files += 1;
        assert!(files <= 10_000);
        assert!(path.split('/').all(|segment| !matches!(segment, "" | "." | "..")), "{path:?}");
        assert!(!path.contains(['\\', '\0', '\n']), "{path:?}");
        while archive.read(&mut chunk).is_ok_and(|read| read > 0) {}
    }
}
