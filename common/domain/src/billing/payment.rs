//! States of payments and of their reversals.

use serde::{Deserialize, Serialize};

/// The state of a payment. The last four are final, except for a later [`ReversalKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
pub enum PaymentState {
    /// Recorded before the request to the provider, which may or may not know of it.
    Intended,
    /// Accepted by the provider, with no outcome reported yet.
    Open,
    /// The money has arrived.
    Paid,
    /// The charge was declined.
    Failed,
    /// The payer cancelled it.
    Canceled,
    /// The payer did not pay in time.
    Expired,
}

impl PaymentState {
    /// Returns whether the provider may still move money for this payment.
    pub fn is_under_way(self) -> bool {
        matches!(self, Self::Intended | Self::Open)
    }

    /// Returns the word that is stored and shown.
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

/// The position of a payment in a customer's sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
pub enum PaymentSequence {
    /// A payment with the payer present, which also authorizes later charges.
    First,
    /// A charge without the payer, under the mandate of the first payment.
    Recurring,
}

/// The way in which a payment was reversed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
pub enum ReversalKind {
    /// We refunded it.
    Refund,
    /// The payer's bank charged it back.
    Chargeback,
}

/// The state of a refund or a charge-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
pub enum ReversalState {
    /// In progress; it can still be cancelled.
    Pending,
    /// The money has left.
    Done,
    /// The money never left, or came back.
    Canceled,
}
