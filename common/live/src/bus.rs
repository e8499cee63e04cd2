//! The change bus: how a committed change reaches the edges, and how they acknowledge it to admin.
//!
//! After the commit, admin publishes the change on [`CHANGES_CHANNEL`]. Every edge applies it and publishes its
//! position on [`ACKS_CHANNEL`]. A message may be lost: the rows of `route_changes` are the source of truth, and a gap
//! in `seq` reveals the loss.
//!
//! Versions without epochs also read these messages, and send messages without one. An edge that receives such a change
//! queries Postgres. Admin waits for such an edge until it has reached the `seq`, but never counts it as having
//! acknowledged, because it does not notice when numbers are reused.

use std::time::Duration;

use domain::{ChangePosition, Epoch};
use serde::{Deserialize, Serialize};

/// The Redis channel on which admin publishes [`RouteChange`](domain::RouteChange)s, as JSON.
pub const CHANGES_CHANNEL: &str = "svc:route-changes";
/// The Redis channel of [`EdgeHeartbeat`]s, as JSON, sent at every applied change and every [`HEARTBEAT_EVERY`].
pub const ACKS_CHANNEL: &str = "svc:edge-acks";
/// The HTTP header in which admin names the [`ChangeSubject`](domain::ChangeSubject) that a response depends on: an edge that
/// caches the response evicts it when the subject changes.
pub const SURROGATE_KEY: &str = "surrogate-key";
/// The interval of an edge's heartbeats while nothing changes.
pub const HEARTBEAT_EVERY: Duration = Duration::from_millis(250);
/// The silence after which admin no longer waits for an edge, though it still counts it.
pub const PRESUMED_DEAD_AFTER: Duration = Duration::from_millis(1_250);
/// The silence after which an edge is no longer counted.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// The Redis channel of a [`TopClientsQuery`] by an operator, as JSON. Edges reply with an [`TopClientsReply`] on its channel.
pub const TOP_CHANNEL: &str = "svc:edge-top";

/// Asks every edge which clients used the most within the last minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopClientsQuery {
    /// Identifies the question and the channel of its replies.
    id: String,
    /// The maximum number of clients that an edge lists.
    pub count: usize,
}

impl TopClientsQuery {
    /// Creates a question with the given id.
    pub fn new(id: String, count: usize) -> Self {
        Self { id, count }
    }

    /// Returns the channel on which the replies are published.
    pub fn reply_channel(&self) -> String {
        format!("{TOP_CHANNEL}:{}", self.id)
    }
}

/// The reply of one edge to a [`TopClientsQuery`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopClientsReply {
    /// The id of the edge process.
    pub edge: String,
    /// The name of its machine; empty from edges that do not send it.
    #[serde(default)]
    pub name: String,
    /// The clients that use the most, in descending order.
    pub clients: Vec<ClientCounts>,
}

/// One client's use of an edge within the last minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientCounts {
    /// The client's address, or the /64 of an IPv6 address.
    pub client: String,
    /// Open connections.
    pub open: u64,
    /// New connections.
    pub connections: u64,
    /// Requests.
    pub requests: u64,
    /// Bytes sent to it.
    pub bytes: u64,
    /// Connections and requests refused because it had reached its share.
    pub refusals: u64,
}

/// The message of a running edge that has applied every change up to `seq`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeHeartbeat {
    /// The id of the edge process, generated at its start.
    pub edge: String,
    /// The last change that the edge has applied.
    pub seq: i64,
    /// The epoch of `seq`. Absent from edges of versions without epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// Whether the edge is stopping, so that nobody should wait for it.
    #[serde(default)]
    pub leaving: bool,
}

impl EdgeHeartbeat {
    /// Creates the heartbeat of `edge`, which has applied every change up to a position.
    pub fn new(edge: String, reached: ChangePosition, leaving: bool) -> Self {
        Self { edge, seq: reached.seq, epoch: Some(reached.epoch), leaving }
    }
}
