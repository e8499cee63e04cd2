//! `[stats]`: what is counted of sites' visits.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[stats]`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// The counter: the edges (`edge`, the default), or nobody (`none`).
    pub source: StatsSource,
    /// A database of countries by address, in the format of `MaxMind` (`.mmdb`), read when an edge starts. Without one, every
    /// country is `XX`.
    pub geoip_file: Option<PathBuf>,
}

/// `stats.source`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatsSource {
    /// The edges count what they answer.
    #[default]
    Edge,
    /// Nothing is counted, and the API answers `stats_unavailable`.
    None,
}
