//! How `edge.memory` is shared out.

use fairness::budget::Limits;

/// Bytes of `edge.memory` that an edge has at least, whatever is configured: the largest manifest fits, and a few visitors.
pub(crate) const LEAST_MEMORY: u64 = 128 * MIB;
/// The part of the machine's memory that is `edge.memory` where nothing is configured, in percent.
pub(crate) const MEMORY_PERCENT: u64 = 40;
/// `edge.memory` where nothing is configured and the machine does not say what it has.
pub(crate) const UNKNOWN_MEMORY: u64 = 512 * MIB;
/// The part of `edge.memory` for bodies of sites that are kept, in percent.
pub(crate) const BODY_CACHE_PERCENT: u64 = 30;
/// The part of `edge.memory` for answers of admin that are kept, in percent.
pub(crate) const PLATFORM_CACHE_PERCENT: u64 = 2;
/// The part of `edge.memory` for manifests that are kept, in percent.
pub(crate) const MANIFEST_CACHE_PERCENT: u64 = 25;
/// The part of `edge.memory` for bytes on their way to visitors, in percent.
pub(crate) const FLIGHT_PERCENT: u64 = 25;
/// The part of `edge.memory` for routes, in percent.
pub(crate) const ROUTES_PERCENT: u64 = 9;
/// The part of `edge.memory` for which deployments projects had lately, in percent.
pub(crate) const RECENTS_PERCENT: u64 = 1;
/// The part of `edge.memory` for certificates, in percent.
pub(crate) const CERTIFICATES_PERCENT: u64 = 4;
/// The part of `edge.memory` for gateway keys, in percent.
pub(crate) const KEYS_PERCENT: u64 = 1;
/// The part of `edge.memory` for memberships, in percent.
pub(crate) const MEMBERS_PERCENT: u64 = 1;
/// The part of `edge.memory` for what is remembered not to be there, in percent.
pub(crate) const ABSENCES_PERCENT: u64 = 2;
/// The part of the bytes on their way to visitors that one client may have, in percent.
pub(crate) const CLIENT_FLIGHT_PERCENT: u64 = 25;

const MIB: u64 = 1024 * 1024;

/// The shares of `edge.memory`, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// All of it.
    pub memory: u64,
    /// For bodies of sites that are kept.
    pub bodies: u64,
    /// For answers of admin that are kept.
    pub platform: u64,
    /// For manifests that are kept.
    pub manifests: u64,
    /// For routes.
    pub routes: u64,
    /// For which deployments projects had lately.
    pub recents: u64,
    /// For certificates.
    pub certificates: u64,
    /// For gateway keys.
    pub keys: u64,
    /// For memberships of organizations.
    pub members: u64,
    /// For hosts, keys, members and certificates that are not there.
    pub absences: u64,
    /// For bytes on their way to visitors.
    pub in_flight: u64,
    /// The part of [`Self::in_flight`] that one client may have.
    pub client: u64,
}

impl Shares {
    /// The shares of `memory`, or of the default where nothing is configured.
    pub fn of(memory: Option<u64>) -> Self {
        let default = || config::machine::memory().map_or(UNKNOWN_MEMORY, |machine| percent(machine, MEMORY_PERCENT));
        let memory = memory.unwrap_or_else(default).max(LEAST_MEMORY);
        let in_flight = percent(memory, FLIGHT_PERCENT);
        Self {
            memory,
            bodies: percent(memory, BODY_CACHE_PERCENT),
            platform: percent(memory, PLATFORM_CACHE_PERCENT),
            manifests: percent(memory, MANIFEST_CACHE_PERCENT),
            routes: percent(memory, ROUTES_PERCENT),
            recents: percent(memory, RECENTS_PERCENT),
            certificates: percent(memory, CERTIFICATES_PERCENT),
            keys: percent(memory, KEYS_PERCENT),
            members: percent(memory, MEMBERS_PERCENT),
            absences: percent(memory, ABSENCES_PERCENT),
            in_flight,
            client: percent(in_flight, CLIENT_FLIGHT_PERCENT),
        }
    }

    /// The limits of what is on its way to visitors.
    pub fn flight(&self) -> Limits {
        Limits { total: self.in_flight, client: self.client, connection: super::CONNECTION_FLIGHT_BYTES }
    }

    /// Names that each of the memories may remember not to be there.
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

    #[test]
    fn shares_are_parts_of_one_whole() {
        for memory in [Some(0), Some(512 * MIB), Some(64 * 1024 * MIB), None] {
            let shares = Shares::of(memory);
            assert!(shares.memory >= LEAST_MEMORY);
            let Shares { bodies, platform, manifests, routes, recents, certificates, keys, members, absences, .. } =
                shares;
            let kept = bodies + platform + manifests + routes + recents + certificates + keys + members + absences;
            assert!(kept + shares.in_flight <= shares.memory);
            assert!(shares.client <= shares.in_flight && shares.client > super::super::CONNECTION_FLIGHT_BYTES);
            let beside_kept = platform / 100 * (100 - super::super::CACHED_KEPT_PERCENT);
            assert!(
                beside_kept > super::super::CACHED_ANSWER_BYTES as u64,
                "the largest answer can be read beside what is kept"
            );
            assert!((1..=super::super::REMEMBERED_ABSENCES).contains(&shares.absences()));
        }
        assert_eq!(Shares::of(Some(1)), Shares::of(Some(LEAST_MEMORY)), "below the floor is the floor");
    }
}
