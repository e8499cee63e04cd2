//! What a red team tried, against bounded load on loopback: a file for what is attacked. Each attack measures what others,
//! or the machine, would feel of it.

mod cookie_bombs;
mod foreign_up_file;
mod header_expansion;
mod leaving_symlinks;
mod manifest_weight;
mod reaching_headers;
mod slow_http1_readers;
mod slow_http2_readers;
mod stored_addresses;
mod terminal_escapes;

/// `edge.memory` of the attacked edges, in MiB: the least there is.
const MEMORY_MIB: u64 = 128;
