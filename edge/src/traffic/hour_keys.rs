//! The keys that were sent to Postgres within an hour, so that no more go there than it takes: of a project, and of all projects of the
//! person who pays for them. What goes beyond is counted together. To forget a key costs no count.

use ahash::{HashMap, HashSet, RandomState};
use domain::{Account, ProjectId, Timestamp};

use super::tally::{Lists, Tally};
use crate::limits;

/// Keys of a project in one hour, by list.
const OF_PROJECT: Lists<usize> = Lists {
    paths: limits::COUNTED_PATHS,
    stand_ins: limits::COUNTED_STAND_INS,
    errors: limits::COUNTED_ERRORS,
    views: limits::COUNTED_VIEWS,
};
/// Keys of all projects of a payer in one hour, by list.
const OF_PAYER: Lists<usize> = Lists {
    paths: limits::PAYER_PATHS,
    stand_ins: limits::PAYER_STAND_INS,
    errors: limits::PAYER_ERRORS,
    views: limits::PAYER_VIEWS,
};

/// The keys of the present hour.
pub(super) struct HourKeys {
    hour: Option<Timestamp>,
    payers: HashMap<Account, PayerKeys>,
    /// The keys that are remembered, and the room of their projects in keys.
    len: usize,
    /// Its keys are random, so nobody makes paths up whose hashes are equal.
    hasher: RandomState,
}

/// The keys of a payer's projects.
#[derive(Default)]
struct PayerKeys {
    hashes: HashSet<u64>,
    sent: Lists<usize>,
    sent_of: HashMap<ProjectId, Lists<usize>>,
}

impl HourKeys {
    /// Knows no key.
    pub(super) fn new() -> Self {
        Self { hour: None, payers: HashMap::default(), len: 0, hasher: RandomState::new() }
    }

    /// Begins anew when it is another hour.
    pub(super) fn begin(&mut self, hour: Timestamp) {
        if self.hour != Some(hour) {
            (self.hour, self.len) = (Some(hour), 0);
            self.payers = HashMap::default();
        }
    }

    /// Leaves those keys of a project that `payer` has room for.
    pub(super) fn bound(&mut self, payer: &Account, project: &ProjectId, tally: &mut Tally) {
        // A project is remembered with what it is bounded by, and takes the room of several: there may be very many of them, too.
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
            if *sent.of(list) >= *OF_PAYER.of(list) || *of_project.of(list) >= *OF_PROJECT.of(list) {
                return false;
            }
            if self.len < limits::HOUR_KEYS {
                hashes.insert(hash);
                self.len += 1;
                *sent.of_mut(list) += 1;
                *of_project.of_mut(list) += 1;
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
            keys.bound(&payer, &ProjectId::new(now), &mut Tally::default());
        }
        assert_eq!(keys.payers[&payer].sent_of.len(), most);
        // Whoever pays: one that is new finds no room, either.
        let other = Account::User(UserId::new(now));
        keys.bound(&other, &ProjectId::new(now), &mut Tally::default());
        assert!(!keys.payers.contains_key(&other));
    }
}
