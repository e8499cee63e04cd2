//! `[admin]`: the program of the control plane.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::address;

/// `[admin]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Admin {
    /// The address of the control plane, in plain HTTP: for the edges, not for the internet.
    pub listen: SocketAddr,
    /// The folder of uploads while they are received, 100 MB each; the system's temporary folder when absent.
    pub spool: Option<PathBuf>,
    /// The address of admin's metrics, as in `edge.metrics_listen`; such as `127.0.0.1:9465`.
    pub metrics_listen: Option<SocketAddr>,
}

impl Default for Admin {
    fn default() -> Self {
        Self { listen: address("127.0.0.1:8081"), spool: None, metrics_listen: None }
    }
}
