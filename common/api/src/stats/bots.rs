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
    /// Declared bots: programs that say what they are.
    pub declared: RequestCount,
    /// Automation: programs that pretend to be a browser.
    pub automation: RequestCount,
    /// The classes that were seen, most frequent first.
    pub classes: Vec<ClassStats>,
}

/// Requests to a project's sites by kind of client and UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BotsStats {
    /// The project's name.
    pub project: ProjectName,
    /// The start of the first day.
    pub from: Timestamp,
    /// The end of the last day; the time of the response if that day is today.
    pub to: Timestamp,
    /// The number of days.
    pub days: u16,
    /// All requests.
    pub totals: RequestCount,
    /// The totals of the preceding period of equal length; null if no longer stored. Unlike today, its days are whole.
    pub previous: Option<BotsTotals>,
    /// People with browsers.
    pub people: RequestCount,
    /// Declared bots: programs that say what they are.
    pub declared: RequestCount,
    /// Automation: programs that pretend to be a browser.
    pub automation: RequestCount,
    /// The classes that were seen, most frequent first.
    pub classes: Vec<ClassStats>,
    /// The fifty most frequent declared bots.
    pub agents: Vec<AgentStats>,
    /// All operators, with the pages that their programs fetched and the people that they sent; most pages first.
    pub operators: Vec<OperatorStats>,
    /// One entry per day, including today and days without traffic.
    pub timeline: Vec<BotsDay>,
    /// The deployments that went live on these days, in chronological order.
    pub deployments: Vec<DeploymentMark>,
}

/// Total requests by kind of client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BotsTotals {
    /// All requests.
    pub totals: RequestCount,
    /// People with browsers.
    pub people: RequestCount,
    /// Declared bots: programs that say what they are.
    pub declared: RequestCount,
    /// Automation: programs that pretend to be a browser.
    pub automation: RequestCount,
}

/// Requests by a class of clients.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClassStats {
    /// The class: `person`, `search_engine`, `ai_training`, `ai_search`, `ai_assistant` (which reads on behalf of a
    /// person), `coding_agent`, `preview` (link previews and feed readers), `monitor`, `other_bot`, or `automation`
    /// (which pretends to be a browser). More may be added.
    pub class: String,
    /// The number of requests.
    pub requests: u64,
    /// Response body bytes sent.
    pub bytes: u64,
}

/// Requests by a declared bot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentStats {
    /// The program's name, such as `GPTBot`.
    pub agent: String,
    /// The company or project that runs it; empty if anybody may run it.
    pub operator: String,
    /// The class, as in `classes`.
    pub class: String,
    /// The number of requests.
    pub requests: u64,
    /// Response body bytes sent.
    pub bytes: u64,
    /// The number of pages that it fetched.
    pub pages: u64,
    /// The number of requests for paths that the site's `robots.txt` disallows.
    pub disallowed: u64,
    /// The number of requests from a network that the operator publishes, or with the operator's signature.
    pub verified: u64,
    /// The number of requests that only claimed the name.
    pub claimed_only: u64,
    /// `claimed_only` as a percentage; null if the operator publishes nothing to verify its requests by.
    pub claimed_only_percent: Option<f64>,
}

/// Traffic of an operator's programs, and the people that they sent here.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperatorStats {
    /// The operator.
    pub operator: String,
    /// The number of pages that its programs fetched.
    pub pages: u64,
    /// Response body bytes sent to its programs.
    pub bytes: u64,
    /// The number of views by people who came from its assistant or search engine.
    pub people_sent: u64,
}

/// Requests by kind of client on a UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BotsDay {
    /// The day, as `YYYY-MM-DD`.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-11-22"))]
    pub day: String,
    /// The number of requests by people.
    pub people: u64,
    /// The number of requests by declared bots.
    pub declared: u64,
    /// The number of requests by automation.
    pub automation: u64,
}
