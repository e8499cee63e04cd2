//! What several of the meter's tests begin with.

use domain::{
    CompletionId, Timestamp, TokenId, UserId,
    usage::{Certainty, Microcents, UsageRow},
};

/// The row of a completion that has just been admitted, with so many completion tokens reserved for it.
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
        certainty: Certainty::Reserved,
        cost: Microcents(1),
        likely: None,
        at: now,
    }
}
