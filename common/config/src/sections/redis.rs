//! `[redis]`: counters and the bus of changes.

use serde::{Deserialize, Serialize};

/// `[redis]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Redis {
    /// `redis://host:port`, `rediss://…`, `redis+cluster://host:port,host:port` (`rediss+cluster://…`), or, on the same
    /// machine and quickest, `redis+unix:///path/of/the/socket`.
    pub url: String,
}

impl Default for Redis {
    fn default() -> Self {
        Self { url: "redis://127.0.0.1:6379".into() }
    }
}
