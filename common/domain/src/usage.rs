//! What a completion used, and what that costs.

mod ending;
mod prices;

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, de};
use time::Date;

pub use self::{
    ending::Ending,
    prices::{Assumed, Charge, Prices, TokenKinds},
};
use super::{Account, CompletionId, Timestamp, TokenId, billing::Cents, month::Month};

/// Money in millionths of a euro cent: what a token costs at a price in cents for a million of them, exactly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Microcents(pub u64);

impl Microcents {
    /// Converts whole cents.
    pub fn from_cents(cents: u32) -> Self {
        Self(u64::from(cents) * 1_000_000)
    }

    /// Returns the amount in whole cents, a part of one counted as one.
    pub fn cents(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// Returns the amount in whole millionths of a euro, a part of one counted as one.
    pub fn microeuros(self) -> u64 {
        self.0.div_ceil(100)
    }

    /// Returns the sum of two amounts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the price of these tokens. The prices are in cents for a million tokens.
    pub fn of(prompt: u64, input_cents: u32, completion: u64, output_cents: u32) -> Self {
        let input = prompt.saturating_mul(input_cents.into());
        Self(input.saturating_add(completion.saturating_mul(output_cents.into())))
    }
}

/// The most that the AI gateway may cost in a month, in euro cents: of a key, or of all keys of an organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "i64")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
pub struct MonthlyLimit(i32);

/// The error for an amount that is no monthly limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a monthly limit is an amount from 0 to {} euros", MonthlyLimit::MOST / 100)]
pub struct MonthlyLimitError;

impl MonthlyLimit {
    /// The largest limit.
    pub const MOST: i32 = 100_000_000;

    /// Returns the amount.
    pub fn cents(self) -> Cents {
        Cents(self.0.into())
    }
}

impl TryFrom<i64> for MonthlyLimit {
    type Error = MonthlyLimitError;
    fn try_from(cents: i64) -> Result<Self, MonthlyLimitError> {
        let cents = i32::try_from(cents).map_err(|_| MonthlyLimitError)?;
        if (0..=Self::MOST).contains(&cents) { Ok(Self(cents)) } else { Err(MonthlyLimitError) }
    }
}

impl From<MonthlyLimit> for i64 {
    fn from(limit: MonthlyLimit) -> Self {
        limit.0.into()
    }
}

impl From<MonthlyLimit> for Microcents {
    fn from(limit: MonthlyLimit) -> Self {
        Self::from_cents(limit.0.unsigned_abs())
    }
}

impl<'de> Deserialize<'de> for MonthlyLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_i64(CentsVisitor)
    }
}

/// Reads a limit in cents, and says in words what it expects.
struct CentsVisitor;

impl de::Visitor<'_> for CentsVisitor {
    type Value = MonthlyLimit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number of cents from 0 to {}", MonthlyLimit::MOST)
    }

    fn visit_i64<E: de::Error>(self, cents: i64) -> Result<MonthlyLimit, E> {
        cents.try_into().map_err(|_| E::invalid_value(de::Unexpected::Signed(cents), &self))
    }

    fn visit_u64<E: de::Error>(self, cents: u64) -> Result<MonthlyLimit, E> {
        let limit = i64::try_from(cents).ok().and_then(|cents| cents.try_into().ok());
        limit.ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(cents), &self))
    }
}

/// Reads an amount in euros with at most two decimals, such as `5` or `5.00`.
impl FromStr for MonthlyLimit {
    type Err = MonthlyLimitError;
    fn from_str(euros: &str) -> Result<Self, MonthlyLimitError> {
        let (whole, part) = euros.split_once('.').unwrap_or((euros, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || part.len() > 2 {
            return Err(MonthlyLimitError);
        }
        let number = |text: &str| text.parse::<i64>().map_err(|_| MonthlyLimitError);
        let part = if part.len() == 1 { number(part)? * 10 } else { number(part)? };
        number(whole)?.checked_mul(100).and_then(|cents| cents.checked_add(part)).ok_or(MonthlyLimitError)?.try_into()
    }
}

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

    #[test]
    fn a_monthly_limit_is_read_in_euros_and_kept_in_cents() {
        for (euros, cents) in
            [("5", 500), ("5.00", 500), ("0.5", 50), ("0", 0), ("1000000", 100_000_000), ("07.05", 705)]
        {
            assert_eq!(euros.parse::<MonthlyLimit>().map(MonthlyLimit::cents), Ok(Cents(cents)), "{euros}");
        }
        for euros in ["", "-1", "+1", "5.", ".5", "1.234", "1,5", "1e3", "none", "1000000.01", "99999999999999999999"] {
            assert_eq!(euros.parse::<MonthlyLimit>(), Err(MonthlyLimitError), "{euros}");
        }
        assert_eq!(serde_json::from_str::<MonthlyLimit>("500").unwrap(), "5".parse().unwrap());
        for cents in ["-1", "100000001", "1.5", "\"5\""] {
            assert!(serde_json::from_str::<MonthlyLimit>(cents).is_err(), "{cents}");
        }
        assert_eq!(Microcents::from("5".parse::<MonthlyLimit>().unwrap()), Microcents::from_cents(500));
    }

    #[test]
    fn a_token_has_an_exact_price() {
        assert_eq!(Microcents::of(1_000_000, 15, 0, 45), Microcents::from_cents(15));
        assert_eq!(Microcents::of(1, 15, 1, 45), Microcents(60));
        assert_eq!([0, 1, 1_000_000, 1_000_001].map(|cost| Microcents(cost).cents()), [0, 1, 1, 2]);
        assert_eq!([0, 1, 100, 101].map(|cost| Microcents(cost).microeuros()), [0, 1, 1, 2]);
        assert_eq!(Microcents::of(u64::MAX, 900, 1, 1), Microcents(u64::MAX), "nonsense is expensive, not free");
    }

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
