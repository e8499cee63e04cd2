//! Play money: the records of a payment provider, in tables that only the play provider reads.

use domain::{PaymentId, ReversalId, Timestamp, billing::Cents};
use sqlx::{PgConnection, PgExecutor};

/// A play money payment to create.
#[derive(Debug)]
pub struct NewPlayPayment<'a> {
    /// The id of the new payment.
    pub id: &'a str,
    /// The customer.
    pub customer_id: &'a str,
    /// Our order id, which makes a repeated request idempotent.
    pub order: &'a PaymentId,
    /// The amount.
    pub total: Cents,
    /// The text on the payer's statement.
    pub description: &'a str,
    /// The page that the payer returns to.
    pub redirect_url: &'a str,
    /// Whether the payer is present, and the payment open until they decide. Other payments are settled on creation.
    pub is_first: bool,
}

/// A play money payment.
#[derive(Debug, Clone)]
pub struct PlayPayment {
    /// The id.
    pub id: String,
    /// Our order.
    pub order: PaymentId,
    /// The amount.
    pub total: Cents,
    /// The text on the payer's statement.
    pub description: String,
    /// The page that the payer returns to.
    pub redirect_url: String,
    /// Whether the payer is present.
    pub is_first: bool,
    /// The status.
    pub status: PlayStatus,
}

/// The status of a play money payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum PlayStatus {
    /// The payer has not decided yet.
    Open,
    /// It was paid.
    Paid,
    /// It failed.
    Failed,
    /// The payer canceled it.
    Canceled,
}

/// A play money refund.
#[derive(Debug, Clone)]
pub struct PlayRefund {
    /// The id.
    pub id: String,
    /// Our order.
    pub order: ReversalId,
    /// The amount.
    pub total: Cents,
}

/// The error of a play money refund.
#[derive(Debug, thiserror::Error)]
pub enum PlayRefundError {
    /// There is no such payment.
    #[error("there is no such payment")]
    Missing,
    /// The payment was not paid, or the refund exceeds what is left of it.
    #[error("not so much of the payment is left")]
    TooMuch,
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Creates a payment. Does nothing when the same order was created before.
///
/// A first payment waits for its payer. A later one is paid or fails immediately, as the customer's last paid first
/// payment determines.
pub async fn create(db: impl PgExecutor<'_>, payment: &NewPlayPayment<'_>, now: Timestamp) -> Result<(), sqlx::Error> {
    let NewPlayPayment { id, customer_id, order, total, description, redirect_url, is_first } = payment;
    sqlx::query!(
        "INSERT INTO play_payments
             (id, customer_id, request_key, total_cents, description, redirect_url, is_first, status, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7,
             CASE WHEN $7 THEN 'open'
                  WHEN (SELECT p.later_charges_pay FROM play_payments p
                        WHERE p.customer_id = $2 AND p.is_first AND p.status = 'paid'
                        ORDER BY p.created_at DESC LIMIT 1) THEN 'paid'
                  ELSE 'failed' END,
             $8)
         ON CONFLICT (request_key) DO NOTHING",
        id,
        customer_id,
        order.as_str(),
        total.0,
        description,
        redirect_url,
        is_first,
        now,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Finds a payment.
pub async fn find(db: impl PgExecutor<'_>, id: &str) -> Result<Option<PlayPayment>, sqlx::Error> {
    sqlx::query_as!(
        PlayPayment,
        "SELECT id, request_key AS order, total_cents AS total, description, redirect_url, is_first, status
         FROM play_payments WHERE id = $1",
        id,
    )
    .fetch_optional(db)
    .await
}

/// Records the payer's decision. Returns false when the payment is no longer open.
pub async fn decide(
    db: impl PgExecutor<'_>,
    id: &str,
    status: PlayStatus,
    later_charges_pay: bool,
) -> Result<bool, sqlx::Error> {
    let decided = sqlx::query!(
        "UPDATE play_payments SET status = $2, later_charges_pay = $3 WHERE id = $1 AND status = 'open'",
        id,
        status as PlayStatus,
        later_charges_pay,
    )
    .execute(db)
    .await?;
    Ok(decided.rows_affected() == 1)
}

/// Returns whether the customer has paid a first payment.
pub async fn has_mandate(db: impl PgExecutor<'_>, customer_id: &str) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM play_payments WHERE customer_id = $1 AND is_first AND status = 'paid') AS "is!""#,
        customer_id,
    )
    .fetch_one(db)
    .await
}

/// Refunds a part of a payment. Does nothing when the same order was refunded before.
pub async fn refund(
    conn: &mut PgConnection,
    payment_id: &str,
    refund_id: &str,
    order: &ReversalId,
    total: Cents,
    now: Timestamp,
) -> Result<(), PlayRefundError> {
    // Lock the payment, so that two refunds together do not exceed it.
    let payment = sqlx::query!("SELECT total_cents, status FROM play_payments WHERE id = $1 FOR UPDATE", payment_id)
        .fetch_optional(&mut *conn)
        .await?
        .ok_or(PlayRefundError::Missing)?;
    let before = refunds(&mut *conn, payment_id).await?;
    if before.iter().any(|refund| refund.order == *order) {
        return Ok(());
    }
    let returned: Cents = before.iter().map(|refund| refund.total).sum();
    let is_left = returned.checked_add(total).is_some_and(|sum| sum <= payment.total_cents);
    if payment.status != PlayStatus::Paid || !is_left {
        return Err(PlayRefundError::TooMuch);
    }
    sqlx::query!(
        "INSERT INTO play_refunds (id, payment_id, request_key, total_cents, created_at) VALUES ($1, $2, $3, $4, $5)",
        refund_id,
        payment_id,
        order.as_str(),
        total.0,
        now,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Lists the refunds of a payment, the oldest first.
pub async fn refunds(db: impl PgExecutor<'_>, payment_id: &str) -> Result<Vec<PlayRefund>, sqlx::Error> {
    sqlx::query_as!(
        PlayRefund,
        "SELECT id, request_key AS order, total_cents AS total
         FROM play_refunds WHERE payment_id = $1 ORDER BY created_at, id",
        payment_id,
    )
    .fetch_all(db)
    .await
}
