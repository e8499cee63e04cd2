//! How admin has the edges send the traffic that they still hold: somebody opens statistics.
//!
//! An edge adds up what it counts for some time before it sends it to Postgres. A [`TrafficRequest`] ends that time; the edge
//! answers with its id once Postgres has everything that it had counted by then.

use serde::{Deserialize, Serialize};

/// Redis channel on which admin publishes [`TrafficRequest`]s, as JSON.
pub const TRAFFIC_CHANNEL: &str = "svc:traffic";

/// Asks every edge to send the traffic that it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficRequest {
    /// Names the request, and the channel of its answers.
    id: String,
}

impl TrafficRequest {
    /// Creates a request with an id of its own.
    pub fn new(id: String) -> Self {
        Self { id }
    }

    /// The channel on which each edge publishes its id once it has sent everything.
    pub fn reply_channel(&self) -> String {
        format!("{TRAFFIC_CHANNEL}:{}", self.id)
    }
}
