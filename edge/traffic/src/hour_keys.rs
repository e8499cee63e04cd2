//! The keys sent to Postgres within an hour, so that no project, and no payer over all of their projects, sends more
//! than the limit. Keys beyond it are counted together. Forgetting a key loses no count.

use ahash::{HashMap, HashSet, RandomState};
use domain::{Account, ProjectId, Timestamp};

use super::tally::{PerList, ProjectTally};

/// The limit of keys for a project in one hour, by list.
const OF_PROJECT: PerList<usize> = PerList {
    paths: limits::COUNTED_PATHS,
    stand_ins: limits::COUNTED_STAND_INS,
    errors: limits::COUNTED_ERRORS,
    views: limits::COUNTED_VIEWS,
};
/// The limit of keys for all projects of a payer in one hour, by list.
const OF_PAYER: PerList<usize> = PerList {
    paths: limits::PAYER_PATHS,
    stand_ins: limits::PAYER_STAND_INS,
    errors: limits::PAYER_ERRORS,
    views: limits::PAYER_VIEWS,
};

pub(super) struct HourKeys {
    hour: Option<Timestamp>,
    payers: HashMap<Account, PayerKeys>,
    /// The number of remembered keys, plus the cost of their projects in keys.
    len: usize,
    /// Randomly keyed, so that nobody can construct paths with equal hashes.
    hasher: RandomState,
}

#[derive(Default)]
struct PayerKeys {
    hashes: HashSet<u64>,
    sent: PerList<usize>,
    sent_of: HashMap<ProjectId, PerList<usize>>,
}

impl HourKeys {
    pub(super) fn new() -> Self {
        Self { hour: None, payers: HashMap::default(), len: 0, hasher: RandomState::new() }
    }

    /// Resets the keys when a new hour begins.
    pub(super) fn begin(&mut self, hour: Timestamp) {
        if self.hour != Some(hour) {
            (self.hour, self.len) = (Some(hour), 0);
            self.payers = HashMap::default();
        }
    }

    /// Retains the keys of a project that `payer` has room for.
    pub(super) fn retain_allowed(&mut self, payer: &Account, project: &ProjectId, tally: &mut ProjectTally) {
        // A project is remembered with its limits and costs several keys, because there may be many projects, too.
        if !self.payers.get(payer).is_some_and(|known| known.sent_of.contains_key(project)) {
            if self.len >= limits::HOUR_KEYS {
                return;
            }
            self.len += limits::HOUR_KEYS_OF_PROJECT;
        }
        let PayerKeys { hashes, sent, sent_of } = self.payers.entry(payer.clone()).or_default();
        let of_project = sent_of.entry(project.clone()).or_default();
        tally.retain_keys(|list, key| {
            let hash = self.hasher.hash_one((project.as_str(), list, key));
            if hashes.contains(&hash) {
                return true;
            }
            if *sent.get(list) >= *OF_PAYER.get(list) || *of_project.get(list) >= *OF_PROJECT.get(list) {
                return false;
            }
            if self.len < limits::HOUR_KEYS {
                hashes.insert(hash);
                self.len += 1;
                *sent.get_mut(list) += 1;
                *of_project.get_mut(list) += 1;
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use domain::{Clock, UserId};

    use super::*;

    #[test]
    fn no_more_projects_are_remembered_than_there_is_room_for() {
        let now = Clock::system().now();
        let (mut keys, payer) = (HourKeys::new(), Account::User(UserId::new(now)));
        keys.begin(now);
        let most = limits::HOUR_KEYS / limits::HOUR_KEYS_OF_PROJECT;
        for _ in 0..most + 10 {
            keys.retain_allowed(&payer, &ProjectId::new(now), &mut ProjectTally::default());
        }
        assert_eq!(keys.payers[&payer].sent_of.len(), most);
        // A new payer finds no room either.
        let other = Account::User(UserId::new(now));
        keys.retain_allowed(&other, &ProjectId::new(now), &mut ProjectTally::default());
        assert!(!keys.payers.contains_key(&other));
    }
}
