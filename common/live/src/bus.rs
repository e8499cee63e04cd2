//! The change bus: how a committed change reaches the edges, and how admin hears that they have it.
//!
//! After the commit admin publishes the change on [`CHANGES_CHANNEL`]; every edge applies it, then says on
//! [`ACKS_CHANNEL`] which position it has reached. A message may be lost: the rows of `route_changes` are the truth, and a gap
//! in `seq` shows the loss.
//!
//! Versions that know of no epochs read these messages as well, and their messages are without one. An edge looks into Postgres when
//! it hears of such a change. Admin waits for such an edge until it has reached the `seq`, and never counts it as having
//! acknowledged: it does not notice when numbers are given again.

use std::time::Duration;

use domain::{Epoch, Position};
use serde::{Deserialize, Serialize};

/// Redis channel on which admin publishes [`RouteChange`](domain::RouteChange)s, as JSON.
pub const CHANGES_CHANNEL: &str = "svc:route-changes";
/// Redis channel on which edges publish [`EdgeHeartbeat`]s, as JSON: at every applied change and every
/// [`HEARTBEAT_EVERY`].
pub const ACKS_CHANNEL: &str = "svc:edge-acks";
/// HTTP header in which admin says which [`Subject`](domain::Subject) an answer ends with: an edge that keeps the answer lets go of it
/// when the subject changes.
pub const SURROGATE_KEY: &str = "surrogate-key";
/// Interval at which an edge publishes a heartbeat when nothing changes.
pub const HEARTBEAT_EVERY: Duration = Duration::from_millis(250);
/// Silence after which admin no longer waits for an edge, though it still counts it.
pub const PRESUMED_DEAD_AFTER: Duration = Duration::from_millis(1_250);
/// Silence after which an edge is no longer counted at all.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// Redis channel on which an operator asks the edges a [`TopQuestion`], as JSON. Each answers with an [`EdgeTop`] on the
/// channel that the question names.
pub const TOP_CHANNEL: &str = "svc:edge-top";

/// Asks every edge which clients took the most within the last minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopQuestion {
    /// Names the question, and the channel of its answers.
    id: String,
    /// The most clients that an edge names.
    pub count: usize,
}

impl TopQuestion {
    /// A question under an id of its own.
    pub fn new(id: String, count: usize) -> Self {
        Self { id, count }
    }

    /// The channel on which the answers are published.
    pub fn reply_channel(&self) -> String {
        format!("{TOP_CHANNEL}:{}", self.id)
    }
}

/// The answer of one edge to a [`TopQuestion`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeTop {
    /// The id of the edge process.
    pub edge: String,
    /// The name of its machine; empty from an edge that does not say it.
    #[serde(default)]
    pub name: String,
    /// The greediest clients, the greediest first.
    pub clients: Vec<ClientCounts>,
}

/// What one client took of an edge within the last minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientCounts {
    /// The client's address, or the /64 of an IPv6 address.
    pub client: String,
    /// Connections that are open.
    pub open: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Requests.
    pub requests: u64,
    /// Bytes that were sent to it.
    pub bytes: u64,
    /// Connections and requests that were refused because it had its share.
    pub refusals: u64,
}

/// The message of an edge that runs and has applied every change up to `seq`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeHeartbeat {
    /// The id of the edge process, made up at its start.
    pub edge: String,
    /// The last change that the edge has applied.
    pub seq: i64,
    /// The epoch that `seq` is of. Absent from edges whose version knows of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// Whether the edge is stopping, so that nobody waits for it any more.
    #[serde(default)]
    pub leaving: bool,
}

impl EdgeHeartbeat {
    /// The heartbeat of `edge`, which has applied every change up to a position.
    pub fn new(edge: String, reached: Position, leaving: bool) -> Self {
        Self { edge, seq: reached.seq, epoch: Some(reached.epoch), leaving }
    }
}
