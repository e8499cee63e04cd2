//! Amounts of money.

use std::{fmt, iter::Sum, ops::Neg};

use serde::{Deserialize, Serialize};

/// An amount in euro cents; negative for a refund.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Cents(pub i64);

impl Cents {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Returns the sum, or `None` on overflow.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Returns the difference, or `None` on overflow.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// Returns the amount in euros with two decimals, such as `-12.30`.
    pub fn decimal(self) -> String {
        let sign = if self.0 < 0 { "-" } else { "" };
        let cents = self.0.unsigned_abs();
        format!("{sign}{}.{:02}", cents / 100, cents % 100)
    }
}

impl From<u32> for Cents {
    fn from(cents: u32) -> Self {
        Self(cents.into())
    }
}

impl Neg for Cents {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl Sum for Cents {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, |sum, amount| Self(sum.0.saturating_add(amount.0)))
    }
}

/// Formats the amount for people, such as `€12.30`.
impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let cents = self.0.unsigned_abs();
        write!(f, "{sign}€{}.{:02}", cents / 100, cents % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_with_two_digits() {
        for (cents, decimal, shown) in
            [(0, "0.00", "€0.00"), (5, "0.05", "€0.05"), (2_000, "20.00", "€20.00"), (-1_234, "-12.34", "-€12.34")]
        {
            assert_eq!((Cents(cents).decimal().as_str(), Cents(cents).to_string().as_str()), (decimal, shown));
        }
    }

    #[test]
    fn sums_know_their_end() {
        assert_eq!(Cents(i64::MAX).checked_add(Cents(1)), None);
        assert_eq!(Cents(2).checked_sub(Cents(5)), Some(Cents(-3)));
        assert_eq!([Cents(1), Cents(2)].into_iter().sum::<Cents>(), Cents(3));
    }
}
