//! How `edge.memory` is divided.

use fairness::budget::BudgetLimits;

/// Minimum of `edge.memory` in bytes, whatever is configured: the largest manifest fits, and a few visitors.
pub(crate) const LEAST_MEMORY: u64 = 128 * MIB;
/// Default of `edge.memory` as a percentage of the machine's memory.
pub(crate) const MEMORY_PERCENT: u64 = 40;
/// Default of `edge.memory` if the machine's memory is unknown.
pub(crate) const UNKNOWN_MEMORY: u64 = 512 * MIB;
/// Maximum sum, in percent, of the configured parts of `edge.memory`. The other parts are fixed.
pub(crate) const CONFIGURED_PERCENT: u64 = 89;
/// Minimum of a configured part, in percent.
pub(crate) const LEAST_PERCENT: u64 = 5;
/// Percentage of `edge.memory` for cached responses of admin.
pub(crate) const PLATFORM_CACHE_PERCENT: u64 = 2;
/// Percentage of `edge.memory` for projects' recent deployments.
pub(crate) const RECENTS_PERCENT: u64 = 1;
/// Percentage of `edge.memory` for certificates.
pub(crate) const CERTIFICATES_PERCENT: u64 = 4;
/// Percentage of `edge.memory` for gateway keys.
pub(crate) const KEYS_PERCENT: u64 = 1;
/// Percentage of `edge.memory` for memberships.
pub(crate) const MEMBERS_PERCENT: u64 = 1;
/// Percentage of `edge.memory` for names known to be missing.
pub(crate) const ABSENCES_PERCENT: u64 = 2;
/// Percentage of the bytes in flight to clients for the gateway's non-streaming responses.
pub(crate) const ANSWERS_PERCENT: u64 = 25;
/// Percentage of the memory for non-streaming responses that one account may use.
pub(crate) const ACCOUNT_ANSWERS_PERCENT: u64 = 25;
/// Percentage of the bytes in flight to clients for large bodies of requests to the gateway.
pub(crate) const REQUESTS_PERCENT: u64 = 15;
/// Percentage of the memory for large request bodies that one account may use, except for a single body.
pub(crate) const ACCOUNT_REQUESTS_PERCENT: u64 = 50;
/// Percentage of the bytes in flight to visitors that one client may use.
pub(crate) const CLIENT_FLIGHT_PERCENT: u64 = 25;

const MIB: u64 = 1024 * 1024;

/// The shares of `edge.memory`, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryShares {
    /// The whole.
    pub memory: u64,
    /// For cached bodies of sites.
    pub bodies: u64,
    /// For cached responses of admin.
    pub platform: u64,
    /// For cached manifests.
    pub manifests: u64,
    /// For routes.
    pub routes: u64,
    /// For projects' recent deployments.
    pub recents: u64,
    /// For certificates.
    pub certificates: u64,
    /// For gateway keys.
    pub keys: u64,
    /// For memberships of organizations.
    pub members: u64,
    /// For hosts, keys, members and certificates known to be missing.
    pub absences: u64,
    /// For the gateway's non-streaming responses.
    pub answers: u64,
    /// The part of [`Self::answers`] that one account may use.
    pub account_answers: u64,
    /// For large bodies of requests to the gateway.
    pub requests: u64,
    /// The part of [`Self::requests`] that one account may use.
    pub account_requests: u64,
    /// For bytes in flight to visitors.
    pub in_flight: u64,
    /// The part of [`Self::in_flight`] that one client may use.
    pub client: u64,
}

/// The configured parts of `edge.memory` are out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "edge.body_cache_percent, manifest_cache_percent, in_flight_percent and routes_percent are {LEAST_PERCENT} at least \
     each, and {CONFIGURED_PERCENT} together at most"
)]
pub struct MemorySharesError;

impl MemoryShares {
    /// Computes the shares of the configured memory, or of the default part of the machine's memory.
    pub fn from_config(config: &config::Edge) -> Result<Self, MemorySharesError> {
        let parts =
            [config.body_cache_percent, config.manifest_cache_percent, config.in_flight_percent, config.routes_percent]
                .map(u64::from);
        if parts.iter().any(|part| *part < LEAST_PERCENT) || parts.iter().sum::<u64>() > CONFIGURED_PERCENT {
            return Err(MemorySharesError);
        }
        Ok(Self::from_parts(config.memory.map(|memory| memory.0), parts))
    }

    /// Returns the shares of the minimum `edge.memory`.
    pub fn least() -> Result<Self, MemorySharesError> {
        Self::from_config(&config::Edge { memory: Some(config::ByteSize(0)), ..config::Edge::default() })
    }

    fn from_parts(memory: Option<u64>, [bodies, manifests, in_flight, routes]: [u64; 4]) -> Self {
        let default = || config::machine::memory().map_or(UNKNOWN_MEMORY, |machine| percent(machine, MEMORY_PERCENT));
        let memory = memory.unwrap_or_else(default).max(LEAST_MEMORY);
        let (answers, requests, in_flight) = {
            let all = percent(memory, in_flight);
            let (answers, requests) = (percent(all, ANSWERS_PERCENT), percent(all, REQUESTS_PERCENT));
            (answers, requests, all - answers - requests)
        };
        Self {
            memory,
            bodies: percent(memory, bodies),
            platform: percent(memory, PLATFORM_CACHE_PERCENT),
            manifests: percent(memory, manifests),
            routes: percent(memory, routes),
            recents: percent(memory, RECENTS_PERCENT),
            certificates: percent(memory, CERTIFICATES_PERCENT),
            keys: percent(memory, KEYS_PERCENT),
            members: percent(memory, MEMBERS_PERCENT),
            absences: percent(memory, ABSENCES_PERCENT),
            answers,
            account_answers: percent(answers, ACCOUNT_ANSWERS_PERCENT),
            requests,
            account_requests: percent(requests, ACCOUNT_REQUESTS_PERCENT),
            in_flight,
            client: percent(in_flight, CLIENT_FLIGHT_PERCENT),
        }
    }

    /// Returns the limits of bytes in flight to visitors.
    pub fn flight(&self) -> BudgetLimits {
        BudgetLimits { total: self.in_flight, client: self.client, connection: super::CONNECTION_FLIGHT_BYTES }
    }

    /// Returns the number of missing names that each cache may remember.
    pub fn absences(&self) -> usize {
        let names = self.absences / super::ABSENCE_MEMORIES / super::ABSENCE_BYTES;
        usize::try_from(names).unwrap_or(usize::MAX).min(super::REMEMBERED_ABSENCES)
    }
}

fn percent(of: u64, percent: u64) -> u64 {
    of / 100 * percent
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(
        memory: Option<u64>,
        [body_cache_percent, manifest_cache_percent, in_flight_percent, routes_percent]: [u8; 4],
    ) -> config::Edge {
        let memory = memory.map(config::ByteSize);
        config::Edge {
            memory,
            body_cache_percent,
            manifest_cache_percent,
            in_flight_percent,
            routes_percent,
            ..config::Edge::default()
        }
    }

    fn shares(memory: Option<u64>) -> MemoryShares {
        MemoryShares::from_config(&config::Edge { memory: memory.map(config::ByteSize), ..config::Edge::default() })
            .unwrap()
    }

    #[test]
    fn configured_parts_are_parts_of_one_whole() {
        let of = |parts| MemoryShares::from_config(&edge(Some(1_000 * MIB), parts));
        let shares = of([40, 20, 10, 19]).unwrap();
        let mib = [shares.bodies, shares.manifests, shares.in_flight, shares.answers, shares.requests, shares.routes];
        assert_eq!(mib.map(|bytes| bytes / MIB), [400, 200, 60, 25, 15, 190]);
        for wrong in [[50, 20, 11, 9], [0, 25, 25, 9], [30, 4, 25, 9], [30, 25, 25, 4], [255, 255, 255, 255]] {
            assert_eq!(of(wrong), Err(MemorySharesError), "{wrong:?}");
        }
    }

    #[test]
    fn shares_are_parts_of_one_whole() {
        let few = MemoryShares::from_config(&edge(Some(0), [5, 5, 5, 5])).unwrap();
        let most = MemoryShares::from_config(&edge(Some(0), [5, 5, 70, 9])).unwrap();
        let usual = [Some(0), Some(512 * MIB), Some(64 * 1024 * MIB), None].map(shares);
        for shares in usual.into_iter().chain([few, most]) {
            assert!(shares.memory >= LEAST_MEMORY);
            let MemoryShares {
                bodies,
                platform,
                manifests,
                routes,
                recents,
                certificates,
                keys,
                members,
                absences,
                ..
            } = shares;
            let kept = bodies + platform + manifests + routes + recents + certificates + keys + members + absences;
            assert!(kept + shares.in_flight + shares.answers + shares.requests <= shares.memory);
            assert!(shares.client <= shares.in_flight && shares.client > super::super::CONNECTION_FLIGHT_BYTES);
            let beside_kept = platform / 100 * (100 - super::super::CACHED_KEPT_PERCENT);
            assert!(
                beside_kept > super::super::CACHED_ANSWER_BYTES as u64,
                "the largest answer can be read beside what is kept"
            );
            assert!((1..=super::super::REMEMBERED_ABSENCES).contains(&shares.absences()));
        }
        assert_eq!(shares(Some(1)), shares(Some(LEAST_MEMORY)), "below the floor is the floor");
    }
}
