//! `[postgres]`: the database.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[postgres]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Postgres {
    /// `postgres://user:password@host:port/database`.
    pub url: String,
    /// The maximum number of connections per process.
    pub max_connections: u32,
    /// A read replica for lookups by edges; the primary when absent.
    pub replica_url: Option<String>,
    /// A PEM file with the certificate authority that is trusted for these connections only. Both URLs then imply
    /// `sslmode=verify-full` unless they say otherwise.
    pub ca_file: Option<PathBuf>,
    /// The mode of the pooler that `url` and `replica_url` lead to: `none` or `transaction`.
    pub pooler: PoolerMode,
    /// PostgreSQL's own address when `pooler` is `transaction`: admin's migrations and backups need a session of their
    /// own. Edges do not use it.
    pub direct_url: Option<String>,
}

/// `postgres.pooler`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PoolerMode {
    /// A direct connection, or a pooler that gives each connection a session of its own (session mode).
    #[default]
    None,
    /// A pooler that may give each transaction another session (transaction mode) and supports prepared statements, as
    /// `PgBouncer` does since 1.21.
    Transaction,
}

impl Default for Postgres {
    fn default() -> Self {
        Self {
            url: "postgres://localhost/svc".into(),
            max_connections: 16,
            replica_url: None,
            ca_file: None,
            pooler: PoolerMode::None,
            direct_url: None,
        }
    }
}
