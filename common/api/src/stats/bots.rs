//! `/projects/:name/stats/bots`, and the kinds of clients in live statistics.

use domain::{ProjectName, Timestamp};
use serde::{Deserialize, Serialize};

use super::{DeploymentMark, RequestCount};

/// Requests by kind of client.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LiveBots {
    /// People with browsers.
    pub people: RequestCount,
    /// Programs that say what they are.
    pub declared: RequestCount,
    /// Programs that pretend to be a browser.
    pub automation: RequestCount,
    /// Every class that was seen, the most frequent first.
    pub classes: Vec<ClassStats>,
}

/// Requests to a project's sites by kind of client and UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BotsStats {
    /// The project's name.
    pub project: ProjectName,
    /// The beginning of the first day.
    pub from: Timestamp,
    /// The end of the last day; the time of the answer when that is today.
    pub to: Timestamp,
    /// The number of days.
    pub days: u16,
    /// All requests.
    pub totals: RequestCount,
    /// The sums of as many days before the first; null where those are not kept any more. Today counts as far as it has come, and the
    /// days before as a whole.
    pub previous: Option<BotsTotals>,
    /// People with browsers.
    pub people: RequestCount,
    /// Programs that say what they are.
    pub declared: RequestCount,
    /// Programs that pretend to be a browser.
    pub automation: RequestCount,
    /// Every class that was seen, the most frequent first.
    pub classes: Vec<ClassStats>,
    /// The fifty most frequent programs that say what they are.
    pub agents: Vec<AgentStats>,
    /// Every operator, with the pages that its programs took and the people that it sent here; the one that took most
    /// comes first.
    pub operators: Vec<OperatorStats>,
    /// Every day, today and those without traffic included.
    pub timeline: Vec<BotsDay>,
    /// The deployments that went live within these days, in order.
    pub deployments: Vec<DeploymentMark>,
}

/// Requests by kind of client, in sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BotsTotals {
    /// All requests.
    pub totals: RequestCount,
    /// People with browsers.
    pub people: RequestCount,
    /// Programs that say what they are.
    pub declared: RequestCount,
    /// Programs that pretend to be a browser.
    pub automation: RequestCount,
}

/// Requests of a class of clients.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClassStats {
    /// The class: `person`, `search_engine`, `ai_training`, `ai_search`, `ai_assistant` (it reads because a person
    /// asked it to), `coding_agent`, `preview` (of links, and readers of feeds), `monitor`, `other_bot`, or
    /// `automation` (it pretends to be a browser). More may come.
    pub class: String,
    /// The number of requests.
    pub requests: u64,
    /// Bytes of bodies that were sent.
    pub bytes: u64,
}

/// Requests of a program that says what it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentStats {
    /// The program's name, such as `GPTBot`.
    pub agent: String,
    /// The company or project that runs it; empty when anybody may.
    pub operator: String,
    /// The class, as in `classes`.
    pub class: String,
    /// The number of requests.
    pub requests: u64,
    /// Bytes of bodies that were sent.
    pub bytes: u64,
    /// The number of pages that it took.
    pub pages: u64,
    /// Requests for what the site's `robots.txt` disallows.
    pub disallowed: u64,
    /// Requests from a network that the operator publishes, or with the operator's signature.
    pub verified: u64,
    /// Requests that only gave the name.
    pub claimed_only: u64,
    /// The share of those, in percent; null when the operator publishes nothing by which they could be told.
    pub claimed_only_percent: Option<f64>,
}

/// Traffic of an operator's programs, and the people that it sent back.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperatorStats {
    /// The operator.
    pub operator: String,
    /// The number of pages that its programs took.
    pub pages: u64,
    /// Bytes of bodies that were sent to them.
    pub bytes: u64,
    /// Views by people whom its assistant or search led here.
    pub people_sent: u64,
}

/// Requests of a UTC day by kind of client.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BotsDay {
    /// The day, as `YYYY-MM-DD`.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-11-22"))]
    pub day: String,
    /// The number of requests by people.
    pub people: u64,
    /// The number of requests by programs that say what they are.
    pub declared: u64,
    /// The number of requests by programs that pretend to be a browser.
    pub automation: u64,
}
