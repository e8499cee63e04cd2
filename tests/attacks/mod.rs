//! What a red team tried, against bounded load on loopback: a file for what is attacked. Each attack measures what others,
//! or the machine, would feel of it.
//!
//! An attacker that is one client among others comes from an address of its own ([`attacker`]); the others from 127.0.0.1.

mod anonymous_writes;
mod control_frames;
mod cookie_bombs;
mod endless_answers;
mod figures;
mod flood_memory;
mod foreign_up_file;
mod greedy_clients;
mod greedy_together;
mod guessed_passwords;
mod guessed_shares;
mod header_expansion;
mod held_uploads;
mod leaving_symlinks;
mod made_up_keys;
mod manifest_weight;
mod platform_floods;
mod reaching_headers;
mod reading_threads;
mod request_bodies;
mod shedding;
mod silent_connections;
mod sleeping_edge;
mod slow_http1_readers;
mod slow_http2_readers;
mod storage;
mod stored_addresses;
mod terminal_escapes;
mod upload_memory;
mod webhook_flood;

use std::{net::Ipv4Addr, time::Duration};

/// `edge.memory` of the attacked edges, in MiB: the least there is.
const MEMORY_MIB: u64 = 128;
/// The time after which a test gives up on something that ought to be immediate.
const PATIENCE: Duration = Duration::from_secs(20);

/// The address of an attacker: each is another client.
const fn attacker(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, number)
}

/// The pace of an attacker that takes its time, or of a watch.
#[expect(clippy::disallowed_methods, reason = "slowness is what is tested")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
