//! `[secrets]`: the master key.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[secrets]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Secrets {
    /// The file of the master key; `certs master-key` makes one.
    pub master_key_file: PathBuf,
}

impl Default for Secrets {
    fn default() -> Self {
        Self { master_key_file: "/etc/svc/master.key".into() }
    }
}
