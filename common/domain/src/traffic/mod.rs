//! Traffic of sites as it is counted: sums of a project's hour, and what they are made of.
//!
//! [`visitors`] says who asked and counts people. Start with [`HourTraffic`].

pub mod agents;
mod keys;
pub mod sketch;
pub mod visitors;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::keys::{AgentKey, ErrorKey, ViewKey};
use crate::{ProjectId, Timestamp};

/// The key that stands for all keys that found no room. No hostname, path or country is written so.
pub const OTHER: &str = "(other)";
/// The country of an address whose country is not known.
pub const UNKNOWN_COUNTRY: &str = "XX";
/// Length of an hour.
pub const HOUR: Duration = Duration::from_hours(1);

/// Time for which hours are kept, before today. Older traffic is there by day.
pub const HOURS_KEPT: Duration = Duration::from_hours(7 * 24);

/// Sums over answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// The number of answers.
    pub requests: u64,
    /// Bytes of bodies that were sent.
    pub bytes: u64,
    /// Answers whose body was in the edge's memory.
    pub cache_hits: u64,
    /// Answers whose body was read from the store.
    pub cache_misses: u64,
    /// Answers by class of status: 2xx, 3xx, 4xx, 5xx, others.
    pub statuses: [u64; 5],
    /// Pages that people viewed.
    pub pageviews: u64,
    /// Bytes of bodies that were sent to people.
    pub people_bytes: u64,
}

impl Sums {
    /// Adds the sums of other answers.
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

    /// Returns the place in [`Self::statuses`] of a status.
    pub fn class(status: u16) -> usize {
        match status / 100 {
            class @ 2..=5 => usize::from(class) - 2,
            _ => 4,
        }
    }
}

/// The number of answers with one key, and the bytes of their bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// The number of answers.
    pub requests: u64,
    /// Bytes of bodies that were sent.
    pub bytes: u64,
}

impl Count {
    /// Adds another count.
    pub fn add(&mut self, more: Self) {
        self.requests += more.requests;
        self.bytes += more.bytes;
    }
}

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// The hostname that was asked.
    Hostname,
    /// The path of an answer that the site has: a file, or a redirect.
    Path,
    /// The client's country, as two letters.
    Country,
    /// An error, as an [`ErrorKey`].
    Error,
    /// A page that a person viewed, as a [`ViewKey`].
    View,
    /// The client, as an [`AgentKey`]. The requests of all of them together are those of the sums.
    Agent,
    /// The agent (its name) of a page that no person took.
    AgentPage,
    /// The agent (its name) of a request that the site's `robots.txt` disallows.
    AgentDisallowed,
}

impl EntryKind {
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
pub struct Entry {
    /// The meaning of the key.
    pub kind: EntryKind,
    /// The key, or [`OTHER`].
    pub key: Box<str>,
    /// Its count.
    pub count: Count,
}

/// Traffic of a project within an hour, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HourTraffic {
    /// The beginning of the hour.
    pub hour: Timestamp,
    /// The project.
    pub project: ProjectId,
    /// The sums of the answers.
    pub sums: Sums,
    /// The answers by key.
    pub entries: Vec<Entry>,
    /// Visitors of the hour's UTC day, as changes of its [sketch](sketch::Sketch).
    pub visitors: Vec<sketch::Register>,
}

/// Returns the beginning of the UTC hour in which `instant` lies.
pub fn hour_of(instant: Timestamp) -> Timestamp {
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
            assert_eq!(hour_of(at(instant)), at(hour), "{instant}");
        }
    }

    const RFC: time::format_description::well_known::Rfc3339 = time::format_description::well_known::Rfc3339;

    #[test]
    fn statuses_have_five_classes() {
        let classes = [101, 200, 206, 304, 404, 451, 500, 599, 600].map(Sums::class);
        assert_eq!(classes, [4, 0, 0, 1, 2, 2, 3, 3, 4]);
    }
}
