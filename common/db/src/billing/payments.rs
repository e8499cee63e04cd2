//! Payments. Each is recorded before the provider is called, and keeps the terms of its invoice.

use domain::{
    Account, PaymentId, SubscriptionId, Timestamp,
    billing::{
        Cents,
        payment::{PaymentSequence, PaymentState},
    },
};
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};

/// A payment.
#[derive(Debug, Clone, PartialEq)]
pub struct Payment {
    /// The id.
    pub id: PaymentId,
    /// The account that pays.
    pub account: Account,
    /// The subscription that is paid.
    pub subscription_id: SubscriptionId,
    /// Whether the payer is present.
    pub sequence: PaymentSequence,
    /// The number of the month that is paid.
    pub period: i32,
    /// The id of the plan that is paid for.
    pub plan: String,
    /// The number of earlier charges for the same month.
    pub attempt: i32,
    /// The amount without VAT.
    pub net_cents: Cents,
    /// The VAT.
    pub vat_cents: Cents,
    /// The amount with VAT.
    pub total_cents: Cents,
    /// The terms that the invoice is made from.
    pub terms: Value,
    /// The state.
    pub state: PaymentState,
    /// The kind of provider.
    pub provider: String,
    /// The provider's id; `None` until the provider has responded.
    pub provider_id: Option<String>,
    /// The checkout page, for a payer who is present.
    pub checkout_url: Option<String>,
    /// The payment method.
    pub method: Option<String>,
    /// The provider's reason for a failure.
    pub failure: Option<String>,
    /// Whether it pays for its month, or may still do so.
    pub covers: bool,
    /// A discrepancy: a report of the provider that the ledger cannot follow.
    pub difference: Option<String>,
    /// The time since which the provider does not know the pending payment, or is not the configured one.
    pub lost_since: Option<Timestamp>,
    /// The time it was recorded.
    pub created_at: Timestamp,
    /// The time it was settled.
    pub settled_at: Option<Timestamp>,
    /// The time of the next status check with the provider.
    pub next_look_at: Option<Timestamp>,
    /// The number of consecutive status checks without a response.
    pub look_failures: i32,
}

impl Payment {
    /// Returns whether the provider has moved money for it or still may, so that its month needs no other charge.
    pub fn is_live(&self) -> bool {
        self.covers && (self.state.is_under_way() || self.state == PaymentState::Paid)
    }
}

/// Reads payments. The literal follows `FROM payments`.
macro_rules! select_payments {
    ($rest:literal, $($argument:expr),* $(,)?) => {
        sqlx::query_as!(
            Payment,
            "SELECT id, account, subscription_id, sequence, period, plan, attempt, net_cents, vat_cents, total_cents,
                    terms, state, provider, provider_id, checkout_url, method, failure, covers, difference, lost_since,
                    created_at, settled_at, next_look_at, look_failures
             FROM payments " + $rest,
            $($argument),*
        )
    };
}

/// Inserts a payment.
pub async fn insert(conn: &mut PgConnection, payment: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO payments (id, account, subscription_id, sequence, period, plan, attempt, net_cents, vat_cents,
                               total_cents, terms, state, provider, created_at, next_look_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        payment.id.as_str(),
        payment.account.as_str(),
        payment.subscription_id.as_str(),
        payment.sequence as PaymentSequence,
        payment.period,
        payment.plan,
        payment.attempt,
        payment.net_cents.0,
        payment.vat_cents.0,
        payment.total_cents.0,
        payment.terms,
        payment.state as PaymentState,
        payment.provider,
        payment.created_at,
        payment.next_look_at as Option<Timestamp>,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Writes a payment that the transaction has locked.
pub async fn store(conn: &mut PgConnection, payment: &Payment) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE payments SET state = $2, provider_id = $3, checkout_url = $4, method = $5, failure = $6, covers = $7,
             difference = $8, settled_at = $9, next_look_at = $10, look_failures = $11, lost_since = $12
         WHERE id = $1",
        payment.id.as_str(),
        payment.state as PaymentState,
        payment.provider_id,
        payment.checkout_url,
        payment.method,
        payment.failure,
        payment.covers,
        payment.difference,
        payment.settled_at as Option<Timestamp>,
        payment.next_look_at as Option<Timestamp>,
        payment.look_failures,
        payment.lost_since as Option<Timestamp>,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Returns a payment.
pub async fn find(db: impl PgExecutor<'_>, id: &PaymentId) -> Result<Option<Payment>, sqlx::Error> {
    select_payments!("WHERE id = $1", id.as_str()).fetch_optional(db).await
}

/// Returns a payment by the provider's id.
pub async fn find_at_provider(
    db: impl PgExecutor<'_>,
    provider: &str,
    provider_id: &str,
) -> Result<Option<Payment>, sqlx::Error> {
    select_payments!("WHERE provider = $1 AND provider_id = $2", provider, provider_id).fetch_optional(db).await
}

/// Locks the payments for a month of a subscription until the end of the transaction, and returns them in order of
/// attempt. The caller has locked the account's subscriptions.
pub async fn lock_month(
    conn: &mut PgConnection,
    subscription: &SubscriptionId,
    period: i32,
) -> Result<Vec<Payment>, sqlx::Error> {
    select_payments!(
        "WHERE subscription_id = $1 AND period = $2 ORDER BY attempt FOR NO KEY UPDATE",
        subscription.as_str(),
        period,
    )
    .fetch_all(conn)
    .await
}

/// Returns the plan of the last payment for a month of a subscription.
pub async fn find_month_plan(
    db: impl PgExecutor<'_>,
    subscription: &SubscriptionId,
    period: i32,
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT plan FROM payments WHERE subscription_id = $1 AND period = $2 ORDER BY attempt DESC LIMIT 1",
        subscription.as_str(),
        period,
    )
    .fetch_optional(db)
    .await
}

/// Returns the plans that the account has paid for, each with the time of the last payment.
pub async fn list_paid_plans(
    db: impl PgExecutor<'_>,
    account: &Account,
) -> Result<Vec<(String, Timestamp)>, sqlx::Error> {
    let paid = sqlx::query!(
        r#"SELECT plan, max(settled_at) AS "at!: Timestamp" FROM payments
           WHERE account = $1 AND state = 'paid' AND covers GROUP BY plan"#,
        account.as_str(),
    )
    .fetch_all(db)
    .await?;
    Ok(paid.into_iter().map(|paid| (paid.plan, paid.at)).collect())
}

/// Takes at most `limit` payments that are due for a status check, the longest due first, and postpones their next
/// check to `next` because processing the response may be interrupted.
pub async fn take_due(
    db: impl PgExecutor<'_>,
    now: Timestamp,
    next: Timestamp,
    limit: i64,
) -> Result<Vec<Payment>, sqlx::Error> {
    sqlx::query_as!(
        Payment,
        "WITH due AS MATERIALIZED (
             SELECT id FROM payments WHERE next_look_at <= $1 ORDER BY next_look_at LIMIT $3 FOR UPDATE SKIP LOCKED)
         UPDATE payments p SET next_look_at = $2 FROM due WHERE p.id = due.id
         RETURNING p.id, p.account, p.subscription_id, p.sequence, p.period, p.plan, p.attempt, p.net_cents,
                   p.vat_cents, p.total_cents, p.terms, p.state, p.provider, p.provider_id, p.checkout_url, p.method,
                   p.failure, p.covers, p.difference, p.lost_since, p.created_at, p.settled_at, p.next_look_at,
                   p.look_failures",
        now,
        next,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Records that a status check got no response, and schedules the next one at `next`.
pub async fn postpone_check(db: impl PgExecutor<'_>, id: &PaymentId, next: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE payments SET next_look_at = $2, look_failures = look_failures + 1 WHERE id = $1",
        id.as_str(),
        next,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Returns whether a month of the subscription was charged back and not paid otherwise since.
pub async fn is_month_owed(db: impl PgExecutor<'_>, subscription: &SubscriptionId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
             SELECT FROM payments p JOIN payment_reversals r ON r.payment_id = p.id
             WHERE p.subscription_id = $1 AND p.state = 'paid' AND NOT p.covers
               AND r.kind = 'chargeback' AND r.state = 'done'
               AND NOT EXISTS (SELECT FROM payments o WHERE o.subscription_id = p.subscription_id
                                 AND o.period = p.period AND o.state = 'paid' AND o.covers)) AS "owed!""#,
        subscription.as_str(),
    )
    .fetch_one(db)
    .await
}

/// Schedules a status check of a payment at `at`, unless an earlier one is scheduled.
pub async fn schedule_check(
    db: impl PgExecutor<'_>,
    provider: &str,
    provider_id: &str,
    at: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE payments SET next_look_at = LEAST(COALESCE(next_look_at, $3), $3) WHERE provider = $1 AND provider_id = $2",
        provider,
        provider_id,
        at,
    )
    .execute(db)
    .await
    .map(drop)
}
