//! `[admin]`: the control plane.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};
use url::Url;

use super::address;

/// `[admin]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Admin {
    /// The address of the control plane, in plain HTTP: for the edges, not for the internet.
    pub listen: SocketAddr,
    /// The maximum number of concurrent connections from all edges together. When 0: three quarters of the files that
    /// the process may open, but no more than fit into an eighth of the memory that it may use, at 64 KB each. A value
    /// above that share of the open files has no effect.
    pub connections: usize,
    /// The folder for uploads while they are received, 100 MB each; the system's temporary folder when absent.
    pub spool: Option<PathBuf>,
    /// The maximum bytes that all uploads together may take in the spool; when 0, half of the space that is free when
    /// the program starts, up to 16 GB.
    pub spool_bytes: u64,
    /// The maximum number of uploads that are received concurrently, each with a connection and an open file; 128 per
    /// core when 0. One account may use 4 of them.
    pub uploads: usize,
    /// The maximum number of uploads that are unpacked and compressed concurrently, each with up to 64 MB of memory;
    /// two per core when 0. One account may use half of them.
    pub publishes: usize,
    /// The maximum number of passwords that are hashed concurrently, each with 19 MB of memory; one per core when 0,
    /// and at least two. One account may use half of them.
    pub password_hashes: usize,
    /// The maximum bytes of memory for webhooks that are being received. When 0, a 32nd of the memory that the process
    /// may use, and at least 8 MB. One client may use 4 MB of it. Webhooks over 1 MB do not count; four of them are
    /// received concurrently.
    pub webhook_bytes: u64,
    /// The maximum number of deployments whose files are listed or compared concurrently, each with up to 64 MB of
    /// memory; when 0, the number that fits into a sixteenth of the memory that the process may use, and at least two.
    /// One account may use half of them.
    pub listings: usize,
    /// Seconds that uploads which make progress may continue after admin receives SIGTERM or SIGINT; other requests
    /// have 20. A value above systemd's `TimeoutStopSec` has no effect.
    pub drain_seconds: u32,
    /// The percentage of the spool's and the store's disks that must be free for an upload to be accepted.
    pub free_disk_percent: u8,
    /// The name of this machine in `admin admins`; the host name when absent.
    pub name: Option<String>,
    /// The address of admin's metrics and of `/livez` and `/readyz`, as in `edge.metrics_listen`, such as
    /// `127.0.0.1:9465`.
    pub metrics_listen: Option<SocketAddr>,
    /// The folder of the built console; when absent, the built-in pages without scripts are served.
    pub console: Option<PathBuf>,
    /// The address of an edge through which admin reaches the AI gateway, for example `https://10.0.0.2`, instead of
    /// the public address. Its certificate must still be that of `site.ai_url`.
    pub gateway_url: Option<Url>,
    /// Whether to trust edges that send the same proof with every request, as those of the previous version do. Set it
    /// to false once no edge of that version runs: anyone who has ever intercepted traffic between an edge and admin
    /// knows that proof. The next version removes this key.
    pub accept_fixed_edge_proof: bool,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: address("127.0.0.1:8081"),
            connections: 0,
            spool: None,
            spool_bytes: 0,
            uploads: 0,
            publishes: 0,
            password_hashes: 0,
            webhook_bytes: 0,
            listings: 0,
            drain_seconds: 600,
            free_disk_percent: 10,
            name: None,
            metrics_listen: None,
            console: None,
            gateway_url: None,
            accept_fixed_edge_proof: true,
        }
    }
}
