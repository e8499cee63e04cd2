//! `[admin]`: the program of the control plane.

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
    /// Concurrent connections, of all edges together. When 0: three quarters of the files that the process may open, and no more
    /// than fit into an eighth of the memory that it may have, at 64 KB each. More than these files is not possible.
    pub connections: usize,
    /// The folder of uploads while they are received, 100 MB each; the system's temporary folder when absent.
    pub spool: Option<PathBuf>,
    /// Bytes that all uploads together may take there; when 0, half of what is free when the program starts, 16 GB at most.
    pub spool_bytes: u64,
    /// Uploads received at a time, each with a connection and an open file; 128 a core when 0. One account has 4 of them.
    pub uploads: usize,
    /// Uploads unpacked and compressed at a time, each with up to 64 MB of memory; two a core when 0. One account has half of
    /// them.
    pub publishes: usize,
    /// Passwords hashed at a time, each with 19 MB of memory; one a core when 0, and two at least. One account has half of
    /// them.
    pub password_hashes: usize,
    /// Bytes of webhooks in memory while they are received, without those of more than 1 MB, of which there are four at a time; a 32nd
    /// of the memory that the process may have when 0, and 8 MB at least. One client has 4 MB of them.
    pub webhook_bytes: u64,
    /// Deployments whose files are listed or compared at a time, each with up to 64 MB of memory; as many as fit into a sixteenth
    /// of the memory that the process may have when 0, and two at least. One account has half of them.
    pub listings: usize,
    /// Seconds for which an admin that gets SIGTERM or SIGINT goes on with uploads that move; other requests have 20. Longer than
    /// systemd waits (`TimeoutStopSec`) is of no use.
    pub drain_seconds: u32,
    /// Percent of the disks of the spool and the store that have to be free for an upload to be taken.
    pub free_disk_percent: u8,
    /// The name of this machine in `admin admins`; the host name when absent.
    pub name: Option<String>,
    /// The address of admin's metrics and of `/livez` and `/readyz`, as in `edge.metrics_listen`; such as `127.0.0.1:9465`.
    pub metrics_listen: Option<SocketAddr>,
    /// The folder of the built console; its pages are those without scripts when absent.
    pub console: Option<PathBuf>,
    /// The address of an edge by which admin reaches the AI gateway, such as `https://10.0.0.2`, when it is not to go by the
    /// public one. Its certificate is still that of `site.ai_url`.
    pub gateway_url: Option<Url>,
    /// Whether edges are believed that show the same proof in every request, as those of the version before do. Once no edge of that
    /// version runs, set it to false: who has once listened between an edge and admin knows that proof. It goes away with the next version.
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
