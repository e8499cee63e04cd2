//! Invalidation: what admin tells the edges, and what the edges answer.
//!
//! A change is a row of `route_changes`, written in the transaction that makes it true. After commit admin publishes
//! it on [`CHANGES_CHANNEL`]; every edge applies it, then says on [`ACKS_CHANNEL`] which `seq` it has reached.

use serde::{Deserialize, Serialize};

use crate::domain::ProjectId;

/// Redis channel on which admin publishes [`RouteChange`]s, as JSON.
pub const CHANGES_CHANNEL: &str = "svc:route-changes";
/// Redis channel on which edges publish [`EdgeHeartbeat`]s, as JSON: at every applied change and every
/// [`HEARTBEAT_EVERY`].
pub const ACKS_CHANNEL: &str = "svc:edge-acks";
/// How often an edge says that it lives.
pub const HEARTBEAT_EVERY: std::time::Duration = std::time::Duration::from_millis(250);
/// Silence after which admin no longer waits for an edge, though it still counts it.
pub const PRESUMED_DEAD_AFTER: std::time::Duration = std::time::Duration::from_millis(1_250);
/// Silence after which an edge is no longer counted at all.
pub const FORGOTTEN_AFTER: std::time::Duration = std::time::Duration::from_secs(10);

/// One committed change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteChange {
    /// Its place in the order of commits, without gaps.
    pub seq: i64,
    /// Everything remembered of this project is to be forgotten.
    pub project: ProjectId,
    /// Hosts ([`super::HostKey::label`]) that began or ceased to exist: also forget that they were unknown.
    pub hosts: Vec<String>,
}

/// An edge lives, and has applied everything up to `seq`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeHeartbeat {
    /// The edge process: made up at its start.
    pub edge: String,
    /// The last change it has applied.
    pub seq: i64,
    /// It stops now; do not wait for it any more.
    #[serde(default)]
    pub leaving: bool,
}
