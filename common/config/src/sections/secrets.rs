//! `[secrets]`: the master key, and the keys that edges derive from it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// `[secrets]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Secrets {
    /// The file with the master key; `certs master-key` creates one.
    pub master_key_file: PathBuf,
    /// The file with an edge's keys, which `certs edge-key` derives from the master key. An edge that has one needs no
    /// master key, and cannot decrypt admin's secrets. `certs rotate-key` rewrites it if it is configured. When absent,
    /// an edge derives its keys from `master_key_file`, and warns that it holds the whole key.
    pub edge_key_file: Option<PathBuf>,
}

impl Default for Secrets {
    fn default() -> Self {
        Self { master_key_file: "/etc/svc/master.key".into(), edge_key_file: None }
    }
}

impl Secrets {
    /// Returns the file from which an edge reads its keys: its own, or else the master key's.
    pub fn edge_file(&self) -> &Path {
        self.edge_key_file.as_ref().unwrap_or(&self.master_key_file)
    }
}
