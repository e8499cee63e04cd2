//! Remembers refusals, so that an account that keeps sending requests costs Redis nothing.
//!
//! A minute's window slides by time alone, so its refusal holds until the moment that came with it, unless spares are
//! in the way. The budgets of a day or month grow whenever a completion leaves something unused. This edge knows its
//! own completions but not those of others, so such a refusal is remembered for [`limits::BUDGET_REFUSAL`], and only
//! while the limit stays the same. So are refusals because of spares, which any edge may return. Times are those of
//! Redis's clock.

use domain::{
    Account, Timestamp, TokenId,
    usage::{Microcents, UsageRow},
};
use live::budgets::{AccountLimits, AdmissionResult, AdmissionVerdict, BudgetUsage, SpareStatus};
use quick_cache::sync::Cache;

/// The latest refusal of each recently refused account.
pub(super) struct RefusalCache(Cache<Account, RememberedRefusal>);

/// The conditions of a refusal, which may be repeated while those that it depends on are unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RefusalGrounds {
    /// The number of Redis's memory; see [`live::Redis::memory_number`].
    pub(super) memory: u64,
    /// The number of the account's ended completions at this edge.
    pub(super) ends: u64,
    pub(super) budget: AccountLimits,
}

#[derive(Debug, Clone)]
struct RememberedRefusal {
    judgement: AdmissionResult,
    grounds: RefusalGrounds,
    token: TokenId,
    tokens: u64,
    cost: Microcents,
}

impl RefusalCache {
    pub(super) fn new() -> Self {
        Self(Cache::new(limits::REFUSALS))
    }

    /// Remembers `judgement` of `row` if it is a refusal. `grounds` must have been read before the request to Redis.
    pub(super) fn remember(&self, row: &UsageRow, judgement: AdmissionResult, grounds: RefusalGrounds) {
        if !matches!(judgement.verdict, AdmissionVerdict::Unknown | AdmissionVerdict::Admitted(_)) {
            let refusal = RememberedRefusal {
                judgement,
                grounds,
                token: row.token.clone(),
                tokens: row.tokens(),
                cost: row.cost,
            };
            self.0.insert(row.account.clone(), refusal);
        }
    }

    /// Returns the refusal that Redis would repeat for `row` at `now`.
    pub(super) fn find(&self, row: &UsageRow, now: Timestamp, grounds: RefusalGrounds) -> Option<AdmissionResult> {
        let refusal = self.0.get(&row.account)?;
        let verdict = refusal.verdict_at(row, now, grounds);
        if verdict.is_none() && refusal.grounds.memory != grounds.memory {
            self.0.remove(&row.account);
        }
        verdict.map(|verdict| AdmissionResult { verdict, at: now, ..refusal.judgement })
    }
}

impl RememberedRefusal {
    fn verdict_at(&self, row: &UsageRow, now: Timestamp, grounds: RefusalGrounds) -> Option<AdmissionVerdict> {
        let AdmissionResult { verdict, at, spares } = self.judgement;
        let age = now.since(at);
        // Another day has other sums, and after a clock goes back, the age of the refusal is unknown.
        let is_other_day = now.as_datetime().date() != at.as_datetime().date();
        if is_other_day || at.since(now) > limits::BUDGET_REFUSAL || self.grounds.memory != grounds.memory {
            return None;
        }
        let is_new = age < limits::BUDGET_REFUSAL;
        let is_recent = is_new && self.grounds.ends == grounds.ends;
        let is_as_dear = is_recent && row.cost >= self.cost;
        let (then, now) = (self.grounds.budget, grounds.budget);
        match verdict {
            AdmissionVerdict::Minute(used)
                if now.per_minute == then.per_minute
                    && age < used.frees_in
                    && (is_new || spares == SpareStatus::NotInTheWay) =>
            {
                Some(AdmissionVerdict::Minute(BudgetUsage {
                    frees_in: used.frees_in.saturating_sub(age),
                    resets_in: used.resets_in.saturating_sub(age),
                    ..used
                }))
            }
            AdmissionVerdict::Day(_) if is_recent && now.per_day == then.per_day && row.tokens() >= self.tokens => {
                Some(verdict)
            }
            AdmissionVerdict::Month(_) if is_as_dear && now.per_month == then.per_month => Some(verdict),
            AdmissionVerdict::AccountLimit(_) if is_as_dear && now.account_limit == then.account_limit => Some(verdict),
            AdmissionVerdict::KeyLimit(_)
                if is_as_dear && now.key_limit == then.key_limit && row.token == self.token =>
            {
                Some(verdict)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::fixtures::{self, BUDGET, GROUNDS},
        *,
    };

    const USED: BudgetUsage = BudgetUsage {
        requests: 60,
        frees_in: Duration::from_secs(20),
        resets_in: Duration::from_secs(50),
        tokens: 1_000,
    };

    fn remembered(row: &UsageRow, verdict: AdmissionVerdict) -> RefusalCache {
        remembered_with(row, verdict, SpareStatus::NotInTheWay)
    }

    fn remembered_with(row: &UsageRow, verdict: AdmissionVerdict, spares: SpareStatus) -> RefusalCache {
        let refusals = RefusalCache::new();
        refusals.remember(row, AdmissionResult { verdict, at: row.at, spares }, GROUNDS);
        refusals
    }

    #[test]
    fn a_refusal_of_the_minute_holds_until_the_minute_has_slid() {
        let row = fixtures::row(300);
        let refusals = remembered(&row, AdmissionVerdict::Minute(USED));
        let find = |age, grounds| refusals.find(&row, row.at + Duration::from_millis(age), grounds);
        let later = BudgetUsage { frees_in: Duration::from_secs(5), resets_in: Duration::from_secs(35), ..USED };
        let at = row.at + Duration::from_secs(15);
        let spares = SpareStatus::NotInTheWay;
        assert_eq!(
            find(15_000, GROUNDS),
            Some(AdmissionResult { verdict: AdmissionVerdict::Minute(later), at, spares })
        );
        assert!(find(19_999, RefusalGrounds { ends: 8, ..GROUNDS }).is_some(), "an end does not free the minute");
        assert_eq!(find(20_000, GROUNDS), None);
        let smaller = UsageRow { completion: 1, cost: Microcents(0), ..row.clone() };
        assert!(refusals.find(&smaller, row.at, GROUNDS).is_some(), "the size is of no matter");
        let other = fixtures::row(300);
        assert_eq!(refusals.find(&other, row.at, GROUNDS), None, "of another account");
        assert_eq!(refusals.find(&row, row.at - Duration::from_secs(5), GROUNDS), None, "the clock went back");
        assert_eq!(find(1_000, RefusalGrounds { memory: 2, ..GROUNDS }), None, "Redis has another memory");
    }

    #[test]
    fn a_refusal_for_what_spares_hold_holds_for_a_moment() {
        let row = fixtures::row(300);
        let refusals = remembered_with(&row, AdmissionVerdict::Minute(USED), SpareStatus::InTheWayFor(Duration::ZERO));
        let find = |age, grounds| refusals.find(&row, row.at + Duration::from_millis(age), grounds);
        assert!(find(249, RefusalGrounds { ends: 8, ..GROUNDS }).is_some());
        assert_eq!(find(250, GROUNDS), None);
    }

    #[test]
    fn a_refusal_for_want_of_budget_holds_for_a_moment_and_until_something_ends() {
        for verdict in [
            AdmissionVerdict::Day(USED),
            AdmissionVerdict::Month(USED),
            AdmissionVerdict::AccountLimit(USED),
            AdmissionVerdict::KeyLimit(USED),
        ] {
            let row = fixtures::row(300);
            let refusals = remembered(&row, verdict);
            let find = |row: &UsageRow, age, grounds| refusals.find(row, row.at + Duration::from_millis(age), grounds);
            assert!(find(&row, 249, GROUNDS).is_some());
            assert!(find(&row, 250, GROUNDS).is_none());
            assert!(find(&row, 1, RefusalGrounds { ends: 8, ..GROUNDS }).is_none());
            let larger = UsageRow { completion: 301, cost: Microcents(2), ..row.clone() };
            assert!(find(&larger, 1, GROUNDS).is_some());
            let smaller = UsageRow { completion: 299, cost: Microcents(0), ..row };
            assert!(find(&smaller, 1, GROUNDS).is_none());
        }
    }

    #[test]
    fn a_refusal_does_not_outlast_the_limit_that_it_was_made_for() {
        let row = fixtures::row(300);
        let changed = [
            (AdmissionVerdict::Month(USED), AccountLimits { per_month: 6_000_000, ..BUDGET }),
            (AdmissionVerdict::AccountLimit(USED), AccountLimits { account_limit: None, ..BUDGET }),
            (AdmissionVerdict::KeyLimit(USED), AccountLimits { key_limit: Some(2_000_000), ..BUDGET }),
        ];
        for (verdict, budget) in changed {
            let refusals = remembered(&row, verdict);
            assert_eq!(refusals.find(&row, row.at, RefusalGrounds { budget, ..GROUNDS }), None, "{verdict:?}");
            assert!(refusals.find(&row, row.at, GROUNDS).is_some(), "{verdict:?}");
        }
    }

    #[test]
    fn a_refusal_for_a_keys_limit_is_that_keys() {
        let row = fixtures::row(300);
        let other = UsageRow { token: fixtures::row(300).token, ..row.clone() };
        assert_eq!(remembered(&row, AdmissionVerdict::KeyLimit(USED)).find(&other, row.at, GROUNDS), None);
        assert!(remembered(&row, AdmissionVerdict::AccountLimit(USED)).find(&other, row.at, GROUNDS).is_some());
    }

    #[test]
    fn what_was_admitted_is_not_remembered() {
        let row = fixtures::row(300);
        for verdict in [AdmissionVerdict::Admitted(USED), AdmissionVerdict::Unknown] {
            assert_eq!(remembered(&row, verdict).find(&row, row.at, GROUNDS), None);
        }
    }

    #[test]
    fn no_refusal_outlasts_its_day() {
        let mut row = fixtures::row(300);
        row.at = domain::month::next_midnight(row.at) - Duration::from_millis(100);
        let refusals = remembered(&row, AdmissionVerdict::Minute(USED));
        assert!(refusals.find(&row, row.at, GROUNDS).is_some());
        assert_eq!(refusals.find(&row, row.at + Duration::from_millis(100), GROUNDS), None);
    }
}
