//! The change bus: how a committed change reaches the edges, and how admin hears that they have it.
//!
//! After the commit admin publishes the change on [`CHANGES_CHANNEL`]; every edge applies it, then says on
//! [`ACKS_CHANNEL`] which `seq` it has reached. A message may be lost: the rows of `route_changes` are the truth, and a gap
//! in `seq` shows the loss.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Redis channel on which admin publishes [`RouteChange`](domain::RouteChange)s, as JSON.
pub const CHANGES_CHANNEL: &str = "svc:route-changes";
/// Redis channel on which edges publish [`EdgeHeartbeat`]s, as JSON: at every applied change and every
/// [`HEARTBEAT_EVERY`].
pub const ACKS_CHANNEL: &str = "svc:edge-acks";
/// Interval at which an edge publishes a heartbeat when nothing changes.
pub const HEARTBEAT_EVERY: Duration = Duration::from_millis(250);
/// Silence after which admin no longer waits for an edge, though it still counts it.
pub const PRESUMED_DEAD_AFTER: Duration = Duration::from_millis(1_250);
/// Silence after which an edge is no longer counted at all.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// The message of an edge that runs and has applied every change up to `seq`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeHeartbeat {
    /// The id of the edge process, made up at its start.
    pub edge: String,
    /// The last change that the edge has applied.
    pub seq: i64,
    /// Whether the edge is stopping, so that nobody waits for it any more.
    #[serde(default)]
    pub leaving: bool,
}
