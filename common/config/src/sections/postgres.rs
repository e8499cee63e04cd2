//! `[postgres]`: the database.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[postgres]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Postgres {
    /// `postgres://user:password@host:port/database`.
    pub url: String,
    /// Connections of one process, at most.
    pub max_connections: u32,
    /// A read replica for the edges' look-ups; the primary when absent.
    pub replica_url: Option<String>,
    /// PEM: the certificate of an authority that is trusted for these connections alone. Both URLs then mean `sslmode=verify-full`
    /// unless they say otherwise.
    pub ca_file: Option<PathBuf>,
}

impl Default for Postgres {
    fn default() -> Self {
        Self { url: "postgres://localhost/svc".into(), max_connections: 16, replica_url: None, ca_file: None }
    }
}
