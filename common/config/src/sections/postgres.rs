//! `[postgres]`: the database.

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
}

impl Default for Postgres {
    fn default() -> Self {
        Self { url: "postgres://localhost/svc".into(), max_connections: 16, replica_url: None }
    }
}
