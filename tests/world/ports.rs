//! Ports that no other test uses: below the kernel's ephemeral range, in blocks, each reserved for one process.

use std::{
    fs::{File, create_dir_all},
    net::{Ipv4Addr, TcpListener},
    sync::{
        LazyLock,
        atomic::{AtomicU16, Ordering},
    },
};

pub(super) const FIRST: u16 = 10_000;
const BLOCK: u16 = 200;
const BLOCKS: u16 = 110;

/// The block of this process: its first port, and the file whose lock reserves it for the lifetime of the process.
static RESERVED: LazyLock<(u16, File)> = LazyLock::new(reserve_block);
static NEXT: AtomicU16 = AtomicU16::new(0);

/// Returns a free port that this process has not recently returned.
pub fn free() -> u16 {
    let first = RESERVED.0;
    for _ in 0..BLOCK {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % BLOCK;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port among {BLOCK} from {first}");
}

/// Reserves the first block that no other process on this machine holds.
fn reserve_block() -> (u16, File) {
    let folder = std::env::temp_dir().join("svc-test-ports");
    create_dir_all(&folder).unwrap();
    for block in 0..BLOCKS {
        let open = File::options().create(true).write(true).truncate(false).open(folder.join(block.to_string()));
        if let Ok(file) = open
            && file.try_lock().is_ok()
        {
            return (FIRST + block * BLOCK, file);
        }
    }
    panic!("{BLOCKS} test processes run already, or their locks in {} cannot be opened", folder.display());
}
