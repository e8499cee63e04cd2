//! Fixtures of the meter's tests.

use domain::{
    CompletionId, Timestamp, TokenId, UserId,
    usage::{Microcents, UsageCertainty, UsageDetails, UsageRow},
};
use live::budgets::AccountLimits;

use super::{ledger::CompletionLedger, refusals::RefusalGrounds};

pub(super) const BUDGET: AccountLimits = AccountLimits {
    per_minute: 60,
    per_day: 1_000,
    per_month: 5_000_000,
    account_limit: Some(3_000_000),
    key_limit: Some(1_000_000),
};

pub(super) const GROUNDS: RefusalGrounds = RefusalGrounds { memory: 1, ends: 7, budget: BUDGET };

/// Returns the row of a newly admitted completion with `completion` reserved tokens.
pub(super) fn row(completion: u64) -> UsageRow {
    let now = Timestamp::from_unix_millis(1_790_000_000_000);
    UsageRow {
        id: CompletionId::new(now),
        account: UserId::new(now).into(),
        token: TokenId::new(now),
        model: "svc/small".into(),
        provider: "a".into(),
        prompt: 1,
        completion,
        certainty: UsageCertainty::Reserved,
        cost: Microcents(1),
        likely: None,
        details: UsageDetails::default(),
        at: now,
    }
}

impl CompletionLedger {
    /// Enters a completion that is sent to a provider.
    pub(super) fn enter(&self, row: UsageRow) {
        let id = row.id.clone();
        self.admit(row);
        self.open(&id);
    }
}
