//! What a completion used, and what that costs.

use serde::{Deserialize, Serialize};
use time::Date;

use super::{Account, CompletionId, Timestamp, TokenId, month::Month};

/// Money in millionths of a euro cent: what a token costs at a price in cents for a million of them, exactly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Microcents(pub u64);

impl Microcents {
    /// So many whole cents.
    pub fn from_cents(cents: u32) -> Self {
        Self(u64::from(cents) * 1_000_000)
    }

    /// What these tokens cost at these prices, in cents for a million.
    pub fn of(prompt: u64, input_cents: u32, completion: u64, output_cents: u32) -> Self {
        let input = prompt.saturating_mul(input_cents.into());
        Self(input.saturating_add(completion.saturating_mul(output_cents.into())))
    }
}

/// One completion on the books. Before its end it says what the completion can use at most: so it is what remains true
/// when nothing more is heard of it. Never a word of the prompt or the completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRow {
    /// Made up at admission; what makes counting twice impossible.
    pub id: CompletionId,
    /// Who pays.
    pub account: Account,
    /// The key it was asked with.
    pub token: TokenId,
    /// `svc/…`.
    pub model: String,
    /// Who served it.
    pub provider: String,
    /// Tokens read.
    pub prompt: u64,
    /// Tokens written.
    pub completion: u64,
    /// Whether that is an estimate, because the provider did not say or nobody was there to hear it.
    pub estimated: bool,
    /// What it costs.
    pub cost: Microcents,
    /// When it was admitted. Its UTC day and month are charged, whenever it ends.
    pub at: Timestamp,
}

impl UsageRow {
    /// What counts against the day's budget.
    pub fn tokens(&self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }

    /// The UTC day that is charged.
    pub fn day(&self) -> Date {
        self.at.as_datetime().date()
    }

    /// The UTC month that is charged.
    pub fn month(&self) -> Month {
        Month::of(self.at)
    }
}

/// What an account has used, and as of which write: for a Redis that does not know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// How many writes this includes.
    pub version: i64,
    /// Tokens of the day.
    pub day_tokens: u64,
    /// Cost of the day's month.
    pub month_cost: Microcents,
    /// Completions that were admitted in the last minute.
    pub last_minute: Vec<CompletionId>,
}

/// What an account has used, as of a write. Of two, the one with the higher version is the newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// How many writes this includes.
    pub version: i64,
    /// Tokens of the day.
    pub day_tokens: u64,
    /// Cost of the day's month.
    pub month_cost: Microcents,
}

/// What an account used on a day, after a write of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaySpent {
    /// The account.
    pub account: Account,
    /// The day.
    pub day: Date,
    /// That day, and its month.
    pub spent: Spent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_an_exact_price() {
        assert_eq!(Microcents::of(1_000_000, 15, 0, 45), Microcents::from_cents(15));
        assert_eq!(Microcents::of(1, 15, 1, 45), Microcents(60));
        assert_eq!(Microcents::of(u64::MAX, 900, 1, 1), Microcents(u64::MAX), "nonsense is expensive, not free");
    }
}
