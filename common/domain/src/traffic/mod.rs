//! Traffic counts of sites: hourly sums per project, and their breakdown.
//!
//! [`visitors`] classifies clients and counts people. Start with [`HourTraffic`].

pub mod agents;
mod keys;
pub mod sketch;
pub mod visitors;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::keys::{AgentKey, ErrorKey, ViewKey};
use crate::{ProjectId, Timestamp};

/// The key for all keys that exceed the size limit of a breakdown. Never a valid hostname, path or country.
pub const OTHER: &str = "(other)";
/// The country of an address with unknown location.
pub const UNKNOWN_COUNTRY: &str = "XX";
/// Length of an hour.
pub const HOUR: Duration = Duration::from_hours(1);

/// Time that hourly traffic is kept, before today. Older traffic is kept by day.
pub const HOURS_KEPT: Duration = Duration::from_hours(7 * 24);

/// Sums over responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrafficSums {
    /// Number of responses.
    pub requests: u64,
    /// Bytes of response bodies sent.
    pub bytes: u64,
    /// Responses whose body was in the edge's memory.
    pub cache_hits: u64,
    /// Responses whose body was read from the store.
    pub cache_misses: u64,
    /// Responses by status class: 2xx, 3xx, 4xx, 5xx, others.
    pub statuses: [u64; 5],
    /// Page views by people.
    pub pageviews: u64,
    /// Bytes of response bodies sent to people.
    pub people_bytes: u64,
}

impl TrafficSums {
    /// Adds other sums.
    pub fn add(&mut self, more: &Self) {
        self.requests += more.requests;
        self.bytes += more.bytes;
        self.cache_hits += more.cache_hits;
        self.cache_misses += more.cache_misses;
        for (sum, more) in self.statuses.iter_mut().zip(more.statuses) {
            *sum += more;
        }
        self.pageviews += more.pageviews;
        self.people_bytes += more.people_bytes;
    }

    /// Returns the index of a status in [`Self::statuses`].
    pub fn class(status: u16) -> usize {
        match status / 100 {
            class @ 2..=5 => usize::from(class) - 2,
            _ => 4,
        }
    }
}

/// The number of responses with one key, and the bytes of their bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrafficCount {
    /// Number of responses.
    pub requests: u64,
    /// Bytes of response bodies sent.
    pub bytes: u64,
}

impl TrafficCount {
    /// Adds another count.
    pub fn add(&mut self, more: Self) {
        self.requests += more.requests;
        self.bytes += more.bytes;
    }
}

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrafficEntryKind {
    /// The requested hostname.
    Hostname,
    /// The path of a file or redirect of the site.
    Path,
    /// The client's two-letter country code.
    Country,
    /// An error, as an [`ErrorKey`].
    Error,
    /// A page view by a person, as a [`ViewKey`].
    View,
    /// The client, as an [`AgentKey`]. The requests of all keys add up to those of the sums.
    Agent,
    /// The name of the agent that requested a page, for clients other than people.
    AgentPage,
    /// The name of the agent whose request the site's `robots.txt` disallows.
    AgentDisallowed,
}

impl TrafficEntryKind {
    /// Returns the word that is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hostname => "hostname",
            Self::Path => "path",
            Self::Country => "country",
            Self::Error => "error",
            Self::View => "view",
            Self::Agent => "agent",
            Self::AgentPage => "agent_page",
            Self::AgentDisallowed => "agent_disallowed",
        }
    }
}

/// A key and its count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficEntry {
    /// The meaning of the key.
    pub kind: TrafficEntryKind,
    /// The key, or [`OTHER`].
    pub key: Box<str>,
    /// Its count.
    pub count: TrafficCount,
}

/// Traffic of a project within an hour, or part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HourTraffic {
    /// The start of the hour.
    pub hour: Timestamp,
    /// The project.
    pub project: ProjectId,
    /// The sums over all responses.
    pub sums: TrafficSums,
    /// The breakdown by key.
    pub entries: Vec<TrafficEntry>,
    /// Visitors of the hour's UTC day, as updates of its [sketch](sketch::VisitorSketch).
    pub visitors: Vec<sketch::SketchRegister>,
}

/// Returns the start of the UTC hour that contains `instant`.
pub fn hour_start(instant: Timestamp) -> Timestamp {
    let hour = HOUR.as_millis().try_into().unwrap_or(u64::MAX);
    Timestamp::from_unix_millis(i64::try_from(instant.unix_millis() / hour * hour).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_begins_at_its_first_instant() {
        let at = |text: &str| Timestamp::from(time::OffsetDateTime::parse(text, &RFC).unwrap());
        for (instant, hour) in [
            ("2026-11-22T23:59:59.999999Z", "2026-11-22T23:00:00Z"),
            ("2026-11-23T00:00:00Z", "2026-11-23T00:00:00Z"),
            ("2026-11-23T00:30:00+05:30", "2026-11-22T19:00:00Z"),
        ] {
            assert_eq!(hour_start(at(instant)), at(hour), "{instant}");
        }
    }

    const RFC: time::format_description::well_known::Rfc3339 = time::format_description::well_known::Rfc3339;

    #[test]
    fn statuses_have_five_classes() {
        let classes = [101, 200, 206, 304, 404, 451, 500, 599, 600].map(TrafficSums::class);
        assert_eq!(classes, [4, 0, 0, 1, 2, 2, 3, 3, 4]);
    }
}
