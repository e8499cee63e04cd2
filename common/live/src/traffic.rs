//! How admin has the edges send the traffic that they still hold: somebody opens statistics.
//!
//! An edge adds up what it counts for some time before it sends it to Postgres. A [`TrafficRequest`] ends that time for some sites,
//! or for all; the edge answers with its id once Postgres has everything of these that it had counted by then.

use domain::ProjectId;
use serde::{Deserialize, Serialize};

/// Redis channel on which admin publishes [`TrafficRequest`]s, as JSON.
pub const TRAFFIC_CHANNEL: &str = "svc:traffic";

/// Asks every edge to send the traffic that it holds of some sites.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficRequest {
    /// Names the request, and the channel of its answers.
    id: String,
    /// The sites; all when it names none. Edges of before there was this field send everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    projects: Vec<ProjectId>,
}

impl TrafficRequest {
    /// Creates a request with an id of its own for the traffic of `projects`, or of all sites if there are none.
    pub fn new(id: String, projects: Vec<ProjectId>) -> Self {
        Self { id, projects }
    }

    /// The sites that are asked for; all when there are none.
    pub fn projects(&self) -> &[ProjectId] {
        &self.projects
    }

    /// The channel on which each edge publishes its id once it has sent everything.
    pub fn reply_channel(&self) -> String {
        format!("{TRAFFIC_CHANNEL}:{}", self.id)
    }
}
