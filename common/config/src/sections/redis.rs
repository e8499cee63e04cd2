//! `[redis]`: counters and change messages.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[redis]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Redis {
    /// `redis://host:port`, `rediss://…`, `redis+cluster://host:port,host:port` (`rediss+cluster://…`), or, fastest and
    /// on the same machine, `redis+unix:///path/of/the/socket`.
    pub url: String,
    /// A PEM file with the only certificate authorities to trust for this connection (`rediss://`); the system's when
    /// absent.
    pub ca_file: Option<PathBuf>,
    /// The name of the database that owns Redis, when this database is to take it over, as in `store.take_over_from`.
    pub take_over_from: Option<String>,
}

impl Default for Redis {
    fn default() -> Self {
        Self { url: "redis://127.0.0.1:6379".into(), ca_file: None, take_over_from: None }
    }
}
