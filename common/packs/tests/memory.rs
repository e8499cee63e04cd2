//! Publishing a large upload takes little memory. In its own program, because it measures the whole program's peak.

#![expect(clippy::expect_used, reason = "a test that cannot be set up has failed")]

use std::{fs, fs::File, io::Write as _};

use corpus::tarball::Header;
use domain::{Clock, DeploymentId};
use flate2::{Compression, write::GzEncoder};
use packs::{PackStore, UploadFormat};

const MB: usize = 1024 * 1024;
/// Maximum growth of the program's memory while publishing.
const GROWTH: usize = 64 * MB;

fn memory(figure: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).expect("the figure");
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().expect("a number") * 1024
}

/// Returns a tarball of almost 100 MB: three archives and one page, each of 24 MB that hardly compress.
fn spool() -> File {
    let file = tempfile::tempfile().expect("a file");
    let mut tar = GzEncoder::new(&file, Compression::none());
    let mut state = 1_u64;
    for path in ["a.zip", "b.zip", "c.zip", "page.html"] {
        tar.write_all(&Header::new(b'0', path, 24 * MB as u64).block()).expect("written");
        for _ in 0..24 * MB / 8 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let digits = (state >> 32) as u32;
            tar.write_all(format!("{digits:08x}").as_bytes()).expect("written");
        }
    }
    tar.write_all(&[0; 1_024]).expect("written");
    tar.finish().expect("written");
    file
}

#[test]
fn a_large_upload_takes_little_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = url::Url::from_directory_path(folder.path()).expect("an absolute path");
    let store = PackStore::open(&config::Store { url, ..config::Store::default() }).expect("a store");
    let now = Clock::system().now();
    let spooled = spool();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let before = memory("VmHWM:");
    let published =
        runtime.block_on(store.write(&DeploymentId::new(now), spooled, UploadFormat::TarGzip, now)).expect("published");
    assert_eq!(published.bytes, 96 * MB as u64);
    let growth = memory("VmHWM:") - before;
    assert!(growth < GROWTH, "publishing took {} MB", growth / MB);
}
