//! The states of payments and of what is taken back from them.

use serde::{Deserialize, Serialize};

/// The state of a payment. The last four are final, but for what [`Reversal`] takes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
pub enum PaymentState {
    /// Recorded before the provider is asked; the provider may know of it or not.
    Intended,
    /// The provider has it, and has not told its end.
    Open,
    /// The money has come.
    Paid,
    /// The charge was refused.
    Failed,
    /// The payer called it off.
    Canceled,
    /// The payer did not pay in time.
    Expired,
}

impl PaymentState {
    /// Returns whether the provider may still move money for it.
    pub fn is_under_way(self) -> bool {
        matches!(self, Self::Intended | Self::Open)
    }

    /// The word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Intended => "intended",
            Self::Open => "open",
            Self::Paid => "paid",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Expired => "expired",
        }
    }
}

/// The place of a payment among those of a customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
pub enum Sequence {
    /// The payer is present, and allows later charges by paying.
    First,
    /// A charge without the payer, by the mandate of the first.
    Recurring,
}

/// The way in which paid money went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
pub enum Reversal {
    /// We gave it back.
    Refund,
    /// The payer's bank took it back.
    Chargeback,
}

/// The state of a refund or a charge-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
pub enum ReversalState {
    /// It is on its way, and can still be called off.
    Pending,
    /// The money is gone.
    Done,
    /// The money never went, or came back.
    Canceled,
}
