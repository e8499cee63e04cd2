//! The usage of completions, and its price.

mod amounts;
mod ending;
mod prices;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use time::Date;

pub use self::{
    amounts::{Microcents, MonthlyLimit, MonthlyLimitError},
    ending::Ending,
    prices::{AssumedKinds, CompletionCharge, ModelPrices, TokenKinds},
};
use super::{Account, CompletionId, Timestamp, TokenId, month::Month};

/// The accuracy of a completion's recorded usage. More accurate usage replaces less accurate, never the reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "SerializedCertainty", into = "SerializedCertainty")]
pub enum UsageCertainty {
    /// Only the reservation is known.
    Reserved,
    /// Estimated from the part of the response that was seen.
    Seen,
    /// Reported by the provider.
    Reported,
    /// Zero, because no provider is known to have been contacted. Replaces only a reservation; not counted as a
    /// request.
    Unused,
    /// Zero, because the provider failed. Replaces only a reservation; not counted as a request. Recorded even without
    /// a row to replace, because a damaged journal may have only the completion's beginning.
    Failed,
}

impl UsageCertainty {
    /// Returns the number stored in usage records.
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

/// The serialized form, readable by all versions. Versions that know only estimates and reports read the first field.
#[derive(Serialize, Deserialize)]
struct SerializedCertainty {
    estimated: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    seen: bool,
}

impl From<SerializedCertainty> for UsageCertainty {
    fn from(written: SerializedCertainty) -> Self {
        match written {
            SerializedCertainty { estimated: false, .. } => Self::Reported,
            SerializedCertainty { seen: true, .. } => Self::Seen,
            SerializedCertainty { .. } => Self::Reserved,
        }
    }
}

impl From<UsageCertainty> for SerializedCertainty {
    fn from(certainty: UsageCertainty) -> Self {
        let estimated = matches!(certainty, UsageCertainty::Reserved | UsageCertainty::Seen);
        Self { estimated, seen: certainty == UsageCertainty::Seen }
    }
}

/// The charge for a completion whose end stays unknown: likely prompt tokens and the longest possible response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LikelyUsage {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// The price, with the maximum number of completion tokens.
    pub cost: Microcents,
}

/// The token kinds of a completion, and how it ended. The previous version does not write these details and skips them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageDetails {
    /// The tokens by kind.
    #[serde(skip_serializing_if = "is_default")]
    pub kinds: TokenKinds,
    /// The kinds that were charged at the higher price because the provider did not report them.
    #[serde(skip_serializing_if = "is_default")]
    pub assumed: AssumedKinds,
    /// How the completion ended.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "ending::deserialize_known")]
    pub ending: Option<Ending>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The recorded usage of one completion. Before its end, it is the maximum that the completion can use, which its
/// budget must cover. It contains no text of the prompt or the completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRow {
    /// The completion's id, created at admission. Rows with the same id are recorded once.
    pub id: CompletionId,
    /// The account that pays.
    pub account: Account,
    /// The token that authorized the completion.
    pub token: TokenId,
    /// The model's id, `svc/…`.
    pub model: Arc<str>,
    /// The provider that served it.
    pub provider: Arc<str>,
    /// Tokens that the model read.
    pub prompt: u64,
    /// Tokens that the model wrote.
    pub completion: u64,
    /// The accuracy of the token counts.
    #[serde(flatten)]
    pub certainty: UsageCertainty,
    /// The price.
    pub cost: Microcents,
    /// The charge that [`Self::charge_lost`] applies if the completion's end stays unknown. `None` once the end is
    /// known, and in rows of versions without this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely: Option<LikelyUsage>,
    /// The tokens by kind, and the ending. Empty before the end, and in rows of versions without this field.
    #[serde(default, skip_serializing_if = "is_default")]
    pub details: UsageDetails,
    /// Time of admission. Its UTC day and month are charged, whenever the completion ends.
    pub at: Timestamp,
}

impl UsageRow {
    /// Returns the number of tokens that count against the day's budget.
    pub fn tokens(&self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }

    /// Returns whether the token counts are estimates, because the provider or the edge failed before reporting them.
    pub fn is_estimated(&self) -> bool {
        matches!(self.certainty, UsageCertainty::Reserved | UsageCertainty::Seen)
    }

    /// Applies the charge for a completion that was never settled, unless its usage is known.
    pub fn charge_lost(&mut self) {
        if self.certainty == UsageCertainty::Reserved {
            self.details.ending = Some(Ending::Lost);
        }
        if let Some(likely) = self.likely.take()
            && self.certainty == UsageCertainty::Reserved
        {
            (self.prompt, self.cost) = (likely.prompt, likely.cost);
        }
    }

    /// Turns the row into a spare reservation, which has used nothing until a request takes it.
    pub fn set_spare(&mut self) {
        self.set_unused();
        self.certainty = UsageCertainty::Reserved;
    }

    /// Returns whether this is a spare reservation that no request has taken. A request reserves at least one token.
    pub fn is_spare(&self) -> bool {
        self.certainty == UsageCertainty::Reserved && self.tokens() == 0
    }

    /// Marks the completion as having used nothing.
    pub fn set_unused(&mut self) {
        (self.likely, self.details) = (None, UsageDetails::default());
        (self.prompt, self.completion, self.cost, self.certainty) = (0, 0, Microcents(0), UsageCertainty::Unused);
    }

    /// Returns whether the completion is known to have used nothing.
    pub fn is_unused(&self) -> bool {
        matches!(self.certainty, UsageCertainty::Unused | UsageCertainty::Failed)
    }

    /// Returns the UTC day that is charged.
    pub fn day(&self) -> Date {
        self.at.as_datetime().date()
    }

    /// Returns the UTC month that is charged.
    pub fn month(&self) -> Month {
        Month::from_timestamp(self.at)
    }
}

/// The usage of an account as stored in Postgres, to load into a Redis that lacks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredUsage {
    /// The day.
    pub day: Date,
    /// Number of the account's writes included.
    pub version: i64,
    /// Tokens used on the day.
    pub day_tokens: u64,
    /// Cost of the day's month.
    pub month_cost: Microcents,
    /// The part of the month's cost from one key, if requested.
    pub key_cost: Option<Microcents>,
    /// Completions admitted in the last minute.
    pub last_minute: Vec<CompletionId>,
}

/// The usage of an account as of one of its writes. A higher version is newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountUsage {
    /// Number of the account's writes included.
    pub version: i64,
    /// Tokens used on the day.
    pub day_tokens: u64,
    /// Cost of the day's month.
    pub month_cost: Microcents,
}

/// The usage of an account on a day, after one of our writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayUsage {
    /// The account.
    pub account: Account,
    /// The day.
    pub day: Date,
    /// The usage of the day and its month.
    pub spent: AccountUsage,
    /// The usage of the keys that the write affected.
    pub keys: Vec<KeyCost>,
}

/// The cost of a key in a month, after a write of its account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyCost {
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
            certainty: UsageCertainty::Reported,
            cost: Microcents(4711),
            likely: None,
            details: UsageDetails::default(),
            at: now,
        };
        let of_before = serde_json::to_string(&bare).unwrap();
        assert!(!of_before.contains("details"), "{of_before}");
        assert_eq!(serde_json::from_str::<UsageRow>(&of_before).unwrap(), bare);
        let kinds = TokenKinds { cached: Some(5), reasoning: Some(0), ..TokenKinds::default() };
        let details = UsageDetails { kinds, assumed: AssumedKinds::from(2), ending: Some(Ending::Length) };
        let row = UsageRow { details, ..bare.clone() };
        let json = serde_json::to_string(&row).unwrap();
        assert!(
            json.contains(
                r#""details":{"kinds":{"cached":5,"reasoning":0},"assumed":["cache_write"],"ending":"length"}"#
            )
        );
        assert_eq!(serde_json::from_str::<UsageRow>(&json).unwrap(), row);
        // Possible output of a later version.
        let later = json
            .replace(r#""ending":"length""#, r#""ending":"later","more":[1]"#)
            .replace("\"cached\":5", "\"video\":5");
        let read = serde_json::from_str::<UsageRow>(&later).unwrap();
        assert_eq!((read.details.ending, read.details.kinds.cached, read.cost), (None, None, row.cost));
        let mut unheard = UsageRow { certainty: UsageCertainty::Reserved, ..bare };
        unheard.charge_lost();
        assert_eq!(unheard.details.ending, Some(Ending::Lost));
        unheard.set_unused();
        assert_eq!(unheard.details, UsageDetails::default());
    }
}
