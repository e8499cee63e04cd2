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
    /// The pooler that `url` and `replica_url` lead to.
    pub pooler: Pooler,
    /// PostgreSQL itself, where `pooler` is `transaction`: admin's migrations and backups hold on to a session. Edges do not use it.
    pub direct_url: Option<String>,
}

/// `postgres.pooler`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooler {
    /// None, or one that gives a connection a session of its own (session mode).
    #[default]
    None,
    /// One that may give each transaction another session (transaction mode), and knows prepared statements, as `PgBouncer` does since 1.21.
    Transaction,
}

impl Default for Postgres {
    fn default() -> Self {
        Self {
            url: "postgres://localhost/svc".into(),
            max_connections: 16,
            replica_url: None,
            ca_file: None,
            pooler: Pooler::None,
            direct_url: None,
        }
    }
}
