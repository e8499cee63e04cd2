//! `[secrets]`: the master key, and what edges have of it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// `[secrets]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Secrets {
    /// The file of the master key; `certs master-key` makes one.
    pub master_key_file: PathBuf,
    /// The file of an edge's keys, which `certs edge-key` makes of the master key: an edge that has one needs no master key, and cannot
    /// open what is admin's. `certs rotate-key` writes it anew where it is named. When absent, an edge derives its keys from
    /// `master_key_file`, and warns that it holds the whole.
    pub edge_key_file: Option<PathBuf>,
}

impl Default for Secrets {
    fn default() -> Self {
        Self { master_key_file: "/etc/svc/master.key".into(), edge_key_file: None }
    }
}

impl Secrets {
    /// The file from which an edge has its keys: its own, or the master key's.
    pub fn edge_file(&self) -> &Path {
        self.edge_key_file.as_ref().unwrap_or(&self.master_key_file)
    }
}
