//! Prices of tokens, and monthly spending limits.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::billing::Cents;

/// Money in millionths of a euro cent, exact for the price of one token at cents per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Microcents(pub u64);

impl Microcents {
    /// Converts from whole cents.
    pub fn from_cents(cents: u32) -> Self {
        Self(u64::from(cents) * 1_000_000)
    }

    /// Returns the amount in whole cents, rounded up.
    pub fn cents(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// Returns the amount in whole millionths of a euro, rounded up.
    pub fn microeuros(self) -> u64 {
        self.0.div_ceil(100)
    }

    /// Returns the sum of two amounts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the price of these tokens, given prices in cents per million tokens.
    pub fn for_tokens(prompt: u64, input_cents: u32, completion: u64, output_cents: u32) -> Self {
        let input = prompt.saturating_mul(input_cents.into());
        Self(input.saturating_add(completion.saturating_mul(output_cents.into())))
    }
}

/// The maximum cost of the AI gateway in a month, in euro cents, for one key or all keys of an organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "i64")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
pub struct MonthlyLimit(i32);

/// The amount is not a valid monthly limit.
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

/// Deserializes a limit in cents, with an error that says what is expected.
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

/// Parses an amount in euros with at most two decimals, such as `5` or `5.00`.
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
        assert_eq!(Microcents::for_tokens(1_000_000, 15, 0, 45), Microcents::from_cents(15));
        assert_eq!(Microcents::for_tokens(1, 15, 1, 45), Microcents(60));
        assert_eq!([0, 1, 1_000_000, 1_000_001].map(|cost| Microcents(cost).cents()), [0, 1, 1, 2]);
        assert_eq!([0, 1, 100, 101].map(|cost| Microcents(cost).microeuros()), [0, 1, 1, 2]);
        assert_eq!(
            Microcents::for_tokens(u64::MAX, 900, 1, 1),
            Microcents(u64::MAX),
            "nonsense is expensive, not free"
        );
    }
}
