//! Renewals of certificates: the windows that authorities suggest, and the renewals that are due.

use std::time::Duration;

use domain::{AcmeAccountId, CertificateId, Timestamp};
use sqlx::PgExecutor;

/// The longest time that a window request is postponed. A later time comes from a wrong clock, and counts as past.
const LONGEST_PAUSE: Duration = Duration::from_hours(2 * 24);

/// A certificate that is due for a request of its renewal window.
#[derive(Debug, Clone)]
pub struct WindowRequest {
    /// The name of its order.
    pub name: String,
    /// The certificate.
    pub certificate_id: CertificateId,
    /// The account that it was issued to.
    pub account_id: AcmeAccountId,
    /// The chain as PEM, leaf first.
    pub chain_pem: String,
    /// The start of the validity.
    pub not_before: Timestamp,
    /// The end of the validity.
    pub not_after: Timestamp,
    /// The renewal time, if known.
    pub renew_at: Option<Timestamp>,
}

/// Takes at most `limit` certificates whose window request is due, and postpones the next one to `next` because
/// processing the response may be interrupted.
pub async fn take_due_windows(
    db: impl PgExecutor<'_>,
    now: Timestamp,
    next: Timestamp,
    limit: i64,
) -> Result<Vec<WindowRequest>, sqlx::Error> {
    sqlx::query_as!(
        WindowRequest,
        r#"WITH due AS MATERIALIZED (
             SELECT name FROM certificate_orders
             WHERE state = 'live' AND (ask_window_at <= $1 OR ask_window_at > $4) AND certificate_id IS NOT NULL
             ORDER BY ask_window_at LIMIT $3 FOR UPDATE SKIP LOCKED)
         UPDATE certificate_orders o SET ask_window_at = $2
           FROM due, certificates c WHERE o.name = due.name AND c.id = o.certificate_id AND c.account_id IS NOT NULL
         RETURNING o.name, c.id AS certificate_id, c.account_id AS "account_id!", c.chain_pem,
                   c.not_before, c.not_after, o.renew_at"#,
        now,
        next,
        limit,
        now + LONGEST_PAUSE,
    )
    .fetch_all(db)
    .await
}

/// The renewal window that an authority suggests, with the times derived from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuggestedWindow {
    /// The start of the window, from which on a renewal is exempt from rate limits.
    pub starts_at: Timestamp,
    /// The renewal time.
    pub renew_at: Timestamp,
    /// The time by which the renewal should be done.
    pub due_by: Timestamp,
    /// The time of the next window request.
    pub ask_at: Timestamp,
}

/// Records the renewal window of a certificate, unless the name has another certificate by now or its renewal was
/// demanded since the request.
pub async fn record_window(
    db: impl PgExecutor<'_>,
    asked: &WindowRequest,
    window: &SuggestedWindow,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE certificate_orders SET window_starts_at = $3, renew_at = $4, due_by = $5, ask_window_at = $6
         WHERE name = $1 AND certificate_id = $2 AND renew_at IS NOT DISTINCT FROM $7",
        asked.name,
        asked.certificate_id.as_str(),
        window.starts_at,
        window.renew_at,
        window.due_by,
        window.ask_at,
        asked.renew_at,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Schedules the next window request for a certificate about which the authority gave no window.
pub async fn postpone_request(
    db: impl PgExecutor<'_>,
    asked: &WindowRequest,
    ask_at: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE certificate_orders SET ask_window_at = $3 WHERE name = $1 AND certificate_id = $2",
        asked.name,
        asked.certificate_id.as_str(),
        ask_at,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Begins at most `limit` due renewals, the most urgent first, and returns their number.
pub async fn begin_due(db: impl PgExecutor<'_>, now: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let begun = sqlx::query!(
        "WITH due AS MATERIALIZED (
             SELECT name FROM certificate_orders WHERE state = 'live' AND renew_at <= $1
             ORDER BY due_by, name LIMIT $2 FOR UPDATE SKIP LOCKED)
         UPDATE certificate_orders o SET state = 'renewing', message = NULL, since = $1, next_attempt_at = $1
           FROM due WHERE o.name = due.name",
        now,
        limit,
    )
    .execute(db)
    .await?;
    Ok(begun.rows_affected())
}

/// Makes the renewal of a name's live certificate due now. Returns false when it has none that is managed.
pub async fn renew_now(db: impl PgExecutor<'_>, name: &str, now: Timestamp) -> Result<bool, sqlx::Error> {
    let renewed = sqlx::query!(
        "UPDATE certificate_orders SET renew_at = $2, due_by = $2 WHERE name = $1 AND state = 'live'",
        name,
        now,
    )
    .execute(db)
    .await?;
    Ok(renewed.rows_affected() == 1)
}

/// Returns the number of certificates whose renewal is overdue.
pub async fn count_overdue(db: impl PgExecutor<'_>, now: Timestamp) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM certificate_orders WHERE certificate_id IS NOT NULL AND due_by <= $1"#,
        now,
    )
    .fetch_one(db)
    .await
}

/// The certificate that an order replaces.
#[derive(Debug, Clone)]
pub struct ReplacedCertificate {
    /// The account that it was issued to.
    pub account_id: AcmeAccountId,
    /// The chain as PEM, leaf first.
    pub chain_pem: String,
}

/// Returns a certificate that an order may name in `replaces`: one that an authority issued to our account.
pub async fn find_replaceable(
    db: impl PgExecutor<'_>,
    id: &CertificateId,
) -> Result<Option<ReplacedCertificate>, sqlx::Error> {
    sqlx::query_as!(
        ReplacedCertificate,
        r#"SELECT account_id AS "account_id!", chain_pem FROM certificates WHERE id = $1 AND account_id IS NOT NULL"#,
        id.as_str(),
    )
    .fetch_optional(db)
    .await
}
