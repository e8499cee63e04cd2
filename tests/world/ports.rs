//! Ports nobody else takes: below the range the kernel hands out, a block for each test process.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicU16, Ordering},
};

const FIRST: u16 = 10_000;
const BLOCK: u16 = 500;
const BLOCKS: u32 = 44;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A free port that this process has not given out lately.
pub fn free() -> u16 {
    let block = u16::try_from(std::process::id() % BLOCKS).unwrap();
    for _ in 0..BLOCK {
        let port = FIRST + block * BLOCK + NEXT.fetch_add(1, Ordering::Relaxed) % BLOCK;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port among {BLOCK} from {}", FIRST + block * BLOCK);
}
