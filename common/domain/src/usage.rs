//! What a completion used, and what that costs.

mod amounts;
mod ending;
mod prices;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use time::Date;

pub use self::{
    amounts::{Microcents, MonthlyLimit, MonthlyLimitError},
    ending::Ending,
    prices::{Assumed, Charge, Prices, TokenKinds},
};
use super::{Account, CompletionId, Timestamp, TokenId, month::Month};

/// How much is known of what a completion used. What is known better takes the place of what was assumed, and never the
/// other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenCertainty", into = "WrittenCertainty")]
pub enum Certainty {
    /// Only what was reserved for it.
    Reserved,
    /// The part of its answer that was seen.
    Seen,
    /// What the provider has reported.
    Reported,
    /// It used nothing, because no provider was asked as far as is known. This takes the place of a reservation alone, and counts as no
    /// request.
    Unused,
    /// It used nothing, because the provider failed. This takes the place of a reservation alone, and counts as no request. It is
    /// recorded even where there is no row to replace: what is left of a journal may have the completion's beginning alone.
    Failed,
}

impl Certainty {
    /// The number that stands for it where usage is recorded.
    pub fn number(self) -> i16 {
        match self {
            Self::Reserved => 0,
            Self::Seen => 1,
            Self::Reported => 2,
            Self::Unused => 3,
            Self::Failed => 4,
        }
    }
}

/// The form in which programs of all versions write it. Those that know only estimates and reports read the first field.
#[derive(Serialize, Deserialize)]
struct WrittenCertainty {
    estimated: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    seen: bool,
}

impl From<WrittenCertainty> for Certainty {
    fn from(written: WrittenCertainty) -> Self {
        match written {
            WrittenCertainty { estimated: false, .. } => Self::Reported,
            WrittenCertainty { seen: true, .. } => Self::Seen,
            WrittenCertainty { .. } => Self::Reserved,
        }
    }
}

impl From<Certainty> for WrittenCertainty {
    fn from(certainty: Certainty) -> Self {
        let estimated = matches!(certainty, Certainty::Reserved | Certainty::Seen);
        Self { estimated, seen: certainty == Certainty::Seen }
    }
}

/// What a completion is charged when nothing is heard of its end: as much of an answer as it can have, for a prompt of as many
/// tokens as are likely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LikelyUsage {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// The price, with as many tokens of an answer as there can be.
    pub cost: Microcents,
}

/// The kinds of a completion's tokens, and how it ended. Programs of the version before do not write these details, and skip them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageDetails {
    /// The tokens by kind.
    #[serde(skip_serializing_if = "is_default")]
    pub kinds: TokenKinds,
    /// The kinds that were charged at the dearer price, because the provider had not reported them.
    #[serde(skip_serializing_if = "is_default")]
    pub assumed: Assumed,
    /// How the completion ended.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "ending::known")]
    pub ending: Option<Ending>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The usage of one completion, as it is recorded. Before the completion's end it says what the completion can use at
/// most, which is what its budget has to have. It holds no word of the prompt or the completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRow {
    /// The completion's id, made at admission. A row with the same id is recorded once.
    pub id: CompletionId,
    /// The account that pays.
    pub account: Account,
    /// The token that the completion was asked for with.
    pub token: TokenId,
    /// The model's id, `svc/…`.
    pub model: Arc<str>,
    /// The provider that served it.
    pub provider: Arc<str>,
    /// Tokens that the model read.
    pub prompt: u64,
    /// Tokens that the model wrote.
    pub completion: u64,
    /// How much is known of the numbers of tokens.
    #[serde(flatten)]
    pub certainty: Certainty,
    /// The price.
    pub cost: Microcents,
    /// What [`Self::set_unheard`] charges when the completion's end stays unknown. None once the end is known, and in rows of
    /// versions that had no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely: Option<LikelyUsage>,
    /// The tokens by kind, and how the completion ended. Nothing before its end, and in rows of versions that had no such field.
    #[serde(default, skip_serializing_if = "is_default")]
    pub details: UsageDetails,
    /// Time of the admission. Its UTC day and month are charged, whenever the completion ends.
    pub at: Timestamp,
}

impl UsageRow {
    /// Returns the number of tokens that counts against the day's budget.
    pub fn tokens(&self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }

    /// Whether the numbers of tokens are an estimate, because the provider did not report them or the edge died before
    /// the report.
    pub fn is_estimated(&self) -> bool {
        matches!(self.certainty, Certainty::Reserved | Certainty::Seen)
    }

    /// Makes it say what is charged when nothing is heard of the completion's end, unless that is known.
    pub fn set_unheard(&mut self) {
        if self.certainty == Certainty::Reserved {
            self.details.ending = Some(Ending::Lost);
        }
        if let Some(likely) = self.likely.take()
            && self.certainty == Certainty::Reserved
        {
            (self.prompt, self.cost) = (likely.prompt, likely.cost);
        }
    }

    /// Makes it the row of a reservation that no request has come for yet: as long as nothing else is known, it used nothing.
    pub fn set_spare(&mut self) {
        self.set_unused();
        self.certainty = Certainty::Reserved;
    }

    /// Whether no request has come for the reservation yet. A request reserves some token at least.
    pub fn is_spare(&self) -> bool {
        self.certainty == Certainty::Reserved && self.tokens() == 0
    }

    /// Makes it say that the completion used nothing.
    pub fn set_unused(&mut self) {
        (self.likely, self.details) = (None, UsageDetails::default());
        (self.prompt, self.completion, self.cost, self.certainty) = (0, 0, Microcents(0), Certainty::Unused);
    }

    /// Whether it says that the completion used nothing.
    pub fn is_unused(&self) -> bool {
        matches!(self.certainty, Certainty::Unused | Certainty::Failed)
    }

    /// Returns the UTC day that is charged.
    pub fn day(&self) -> Date {
        self.at.as_datetime().date()
    }

    /// Returns the UTC month that is charged.
    pub fn month(&self) -> Month {
        Month::of(self.at)
    }
}

/// The usage of an account as Postgres holds it, for a Redis that does not know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// The day.
    pub day: Date,
    /// Number of the account's writes that this includes.
    pub version: i64,
    /// Tokens of the day.
    pub day_tokens: u64,
    /// Cost of the day's month.
    pub month_cost: Microcents,
    /// The part of it that one key has cost, if that was asked for.
    pub key_cost: Option<Microcents>,
    /// Completions that were admitted in the last minute.
    pub last_minute: Vec<CompletionId>,
}

/// The usage of an account as of one of its writes. Of two, the one with the higher version is the newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// Number of the account's writes that this includes.
    pub version: i64,
    /// Tokens of the day.
    pub day_tokens: u64,
    /// Cost of the day's month.
    pub month_cost: Microcents,
}

/// The usage of an account on a day, after a write of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaySpent {
    /// The account.
    pub account: Account,
    /// The day.
    pub day: Date,
    /// The usage of that day, and of its month.
    pub spent: Spent,
    /// The usage of the keys that the write was about.
    pub keys: Vec<KeySpent>,
}

/// What a key has cost in a month, after a write of its account's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpent {
    /// The key.
    pub token: TokenId,
    /// Cost of the month.
    pub month_cost: Microcents,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Edges of two versions take over each other's journals.
    #[test]
    fn rows_are_read_as_other_versions_wrote_them() {
        let now = Timestamp::from_unix_millis(1_798_761_599_999);
        let bare = UsageRow {
            id: CompletionId::new(now),
            account: super::super::UserId::new(now).into(),
            token: TokenId::new(now),
            model: "svc/small".into(),
            provider: "a".into(),
            prompt: 12,
            completion: 40,
            certainty: Certainty::Reported,
            cost: Microcents(4711),
            likely: None,
            details: UsageDetails::default(),
            at: now,
        };
        let of_before = serde_json::to_string(&bare).unwrap();
        assert!(!of_before.contains("details"), "{of_before}");
        assert_eq!(serde_json::from_str::<UsageRow>(&of_before).unwrap(), bare);
        let kinds = TokenKinds { cached: Some(5), reasoning: Some(0), ..TokenKinds::default() };
        let details = UsageDetails { kinds, assumed: Assumed::from(2), ending: Some(Ending::Length) };
        let row = UsageRow { details, ..bare.clone() };
        let json = serde_json::to_string(&row).unwrap();
        assert!(
            json.contains(
                r#""details":{"kinds":{"cached":5,"reasoning":0},"assumed":["cache_write"],"ending":"length"}"#
            )
        );
        assert_eq!(serde_json::from_str::<UsageRow>(&json).unwrap(), row);
        // What a later version may write.
        let later = json
            .replace(r#""ending":"length""#, r#""ending":"later","more":[1]"#)
            .replace("\"cached\":5", "\"video\":5");
        let read = serde_json::from_str::<UsageRow>(&later).unwrap();
        assert_eq!((read.details.ending, read.details.kinds.cached, read.cost), (None, None, row.cost));
        let mut unheard = UsageRow { certainty: Certainty::Reserved, ..bare };
        unheard.set_unheard();
        assert_eq!(unheard.details.ending, Some(Ending::Lost));
        unheard.set_unused();
        assert_eq!(unheard.details, UsageDetails::default());
    }
}
