//! Reports on a project's traffic: hours, days, the lists of either, and the deployments that went live meanwhile.
//!
//! Every report includes the traffic that is not folded into hours yet ([`traffic`](super::traffic)). Queries do not
//! scan: they list the hours and days, together with the project. Start with [`live()`] and [`days()`].

mod days;
mod lists;
mod live;
mod marks;
mod paths;

use domain::{ProjectId, traffic::TrafficSums};

pub use self::{
    days::{DayQuery, DayRange, DayTraffic, EntryResolution, days},
    lists::{ListEntry, ListKind},
    live::{LiveTraffic, TopLengths, ViewFilter, hourly_sums, live, live_entry, views_by_hour},
    marks::{TimelineMark, marks},
    paths::{ServedPath, list_served},
};
use crate::permits::{AtLeast, Member, ProjectPermit};

/// Proof that a project's statistics may be read, by a permit for the project or by its public link.
#[derive(Debug, Clone)]
pub struct StatsPermit(ProjectId);

impl<L: AtLeast<Member>> From<&ProjectPermit<L>> for StatsPermit {
    fn from(project: &ProjectPermit<L>) -> Self {
        Self(project.id.clone())
    }
}

impl StatsPermit {
    /// Returns the project.
    pub fn project(&self) -> &ProjectId {
        &self.0
    }

    /// Creates a proof for the project of a public link that the caller has looked up.
    pub(super) fn by_link(project: ProjectId) -> Self {
        Self(project)
    }
}

/// Reads stored sums: requests, bytes, hits, misses, five classes of status, page views, bytes to people.
fn parse_sums(stored: &[i64]) -> TrafficSums {
    let at = |place: usize| stored.get(place).copied().map_or(0, count);
    TrafficSums {
        requests: at(0),
        bytes: at(1),
        cache_hits: at(2),
        cache_misses: at(3),
        statuses: [at(4), at(5), at(6), at(7), at(8)],
        pageviews: at(9),
        people_bytes: at(10),
    }
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
