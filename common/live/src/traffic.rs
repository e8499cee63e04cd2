//! Requests by admin that edges send their pending traffic, made when somebody opens statistics.
//!
//! An edge adds up its counts for some time before it sends them to Postgres. A [`TrafficRequest`] ends that time for
//! some sites or for all; the edge replies with its id once Postgres has all of their counts up to then.

use domain::ProjectId;
use serde::{Deserialize, Serialize};

/// The Redis channel on which admin publishes [`TrafficRequest`]s, as JSON.
pub const TRAFFIC_CHANNEL: &str = "svc:traffic";

/// Asks every edge to send its pending traffic of some sites.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficRequest {
    /// Identifies the request and the channel of its replies.
    id: String,
    /// The sites; empty for all. Edges of versions before this field send everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    projects: Vec<ProjectId>,
}

impl TrafficRequest {
    /// Creates a request with the given id for the traffic of `projects`, or of all sites if it is empty.
    pub fn new(id: String, projects: Vec<ProjectId>) -> Self {
        Self { id, projects }
    }

    /// Returns the requested sites; empty for all.
    pub fn projects(&self) -> &[ProjectId] {
        &self.projects
    }

    /// Returns the channel on which each edge publishes its id once it has sent everything.
    pub fn reply_channel(&self) -> String {
        format!("{TRAFFIC_CHANNEL}:{}", self.id)
    }
}
