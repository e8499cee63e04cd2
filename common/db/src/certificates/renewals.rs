//! When certificates are renewed: what their authorities said, and what is due.

use std::time::Duration;

use domain::{AcmeAccountId, CertificateId, Timestamp};
use sqlx::PgExecutor;

/// No question is put off for longer. A later time was noted by a clock that was wrong, and counts as past.
const LONGEST_PAUSE: Duration = Duration::from_hours(2 * 24);

/// A certificate about whose renewal its authority is to be asked.
#[derive(Debug, Clone)]
pub struct WindowToAsk {
    /// The name of its order.
    pub name: String,
    /// The certificate.
    pub certificate_id: CertificateId,
    /// The account that it was issued to.
    pub account_id: AcmeAccountId,
    /// Leaf first, PEM.
    pub chain_pem: String,
    /// Valid from.
    pub not_before: Timestamp,
    /// Valid until.
    pub not_after: Timestamp,
    /// The time of its renewal, as far as is known.
    pub renew_at: Option<Timestamp>,
}

/// Takes at most `limit` certificates that are to be asked about, and puts the next question off to `next`: what is done with the
/// answer may be cut off anywhere.
pub async fn take_windows(
    db: impl PgExecutor<'_>,
    now: Timestamp,
    next: Timestamp,
    limit: i64,
) -> Result<Vec<WindowToAsk>, sqlx::Error> {
    sqlx::query_as!(
        WindowToAsk,
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

/// The answer of an authority to the question when a certificate is to be renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The start of the window, from which on a renewal counts for no limit.
    pub starts_at: Timestamp,
    /// The time of the renewal.
    pub renew_at: Timestamp,
    /// The time by which it should be done.
    pub due_by: Timestamp,
    /// The time of the next question.
    pub ask_at: Timestamp,
}

/// Notes what an authority said of a certificate. Nothing is noted when the name has another certificate by now, or somebody
/// has demanded its renewal since the authority was asked.
pub async fn note_window(db: impl PgExecutor<'_>, asked: &WindowToAsk, window: &Window) -> Result<(), sqlx::Error> {
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

/// Notes when an authority is to be asked again that did not say anything of a certificate.
pub async fn ask_later(db: impl PgExecutor<'_>, asked: &WindowToAsk, ask_at: Timestamp) -> Result<(), sqlx::Error> {
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

/// Begins at most `limit` renewals that are due, those first that should be done first, and returns how many there were.
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

/// Has the certificate of a name renewed now. Returns false when no certificate is looked after for it.
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

/// Returns how many certificates should have been renewed by now.
pub async fn overdue(db: impl PgExecutor<'_>, now: Timestamp) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM certificate_orders WHERE certificate_id IS NOT NULL AND due_by <= $1"#,
        now,
    )
    .fetch_one(db)
    .await
}

/// The certificate that an order replaces.
#[derive(Debug, Clone)]
pub struct Replaced {
    /// The account that it was issued to.
    pub account_id: AcmeAccountId,
    /// Leaf first, PEM.
    pub chain_pem: String,
}

/// Returns a certificate that a later one can be said to replace: an authority issued it to an account of ours.
pub async fn replaced(db: impl PgExecutor<'_>, id: &CertificateId) -> Result<Option<Replaced>, sqlx::Error> {
    sqlx::query_as!(
        Replaced,
        r#"SELECT account_id AS "account_id!", chain_pem FROM certificates WHERE id = $1 AND account_id IS NOT NULL"#,
        id.as_str(),
    )
    .fetch_optional(db)
    .await
}
