//! Refunds and charge-backs of payments.

use domain::{
    PaymentId, ReversalId, Timestamp,
    billing::{
        Cents,
        payment::{ReversalKind as Kind, ReversalState},
    },
};
use sqlx::{PgConnection, PgExecutor};

/// A reversal of a payment, pending or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentReversal {
    /// The id.
    pub id: ReversalId,
    /// The payment.
    pub payment_id: PaymentId,
    /// A refund or a charge-back.
    pub kind: Kind,
    /// The amount.
    pub total_cents: Cents,
    /// The state.
    pub state: ReversalState,
    /// The provider's id; `None` until the provider has responded.
    pub provider_id: Option<String>,
    /// The reason given by the operator or the service.
    pub reason: Option<String>,
    /// The time it was recorded.
    pub created_at: Timestamp,
    /// The time it was settled.
    pub settled_at: Option<Timestamp>,
}

/// Returns the reversals of a payment, the oldest first.
pub async fn list_for_payment(
    db: impl PgExecutor<'_>,
    payment: &PaymentId,
) -> Result<Vec<PaymentReversal>, sqlx::Error> {
    sqlx::query_as!(
        PaymentReversal,
        "SELECT id, payment_id, kind, total_cents, state, provider_id, reason, created_at, settled_at
         FROM payment_reversals WHERE payment_id = $1 ORDER BY id",
        payment.as_str(),
    )
    .fetch_all(db)
    .await
}

/// Inserts or updates a reversal. The transaction has locked its payment.
pub async fn store(conn: &mut PgConnection, reversal: &PaymentReversal) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO payment_reversals
             (id, payment_id, kind, total_cents, state, provider_id, reason, created_at, settled_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (id) DO UPDATE SET state = $5, provider_id = $6, settled_at = $9",
        reversal.id.as_str(),
        reversal.payment_id.as_str(),
        reversal.kind as Kind,
        reversal.total_cents.0,
        reversal.state as ReversalState,
        reversal.provider_id,
        reversal.reason,
        reversal.created_at,
        reversal.settled_at as Option<Timestamp>,
    )
    .execute(conn)
    .await
    .map(drop)
}
