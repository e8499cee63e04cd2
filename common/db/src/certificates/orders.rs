//! Certificate orders: one row for each name that needs a certificate, with its state and the time of the next attempt.
//!
//! A worker leases a row, and writes to it only while it holds the lease. A row outlives its order: in state `live` it
//! waits for the renewal (see [`renewals`](super::renewals)).

use std::time::Duration;

use domain::{AcmeAccountId, CertificateId, Hostname, Timestamp, certificates::DomainState};
use secrets::{KeyPurpose, MasterKey, master_key::OpenError};
use sqlx::{PgConnection, PgExecutor};

/// The longest time that an attempt is postponed, by backoff or by an authority's request. A later time comes from a
/// wrong clock, and counts as past.
const LONGEST_PAUSE: Duration = Duration::from_hours(31 * 24);
/// Repeated requests for a name cause at most one check within this time.
const LOOK_SOON: Duration = Duration::from_secs(5);

/// Begins to manage a certificate for a custom domain, with a check now. A repeated call makes another check due now,
/// unless the last call was within [`LOOK_SOON`] and a check is due within that time anyway.
pub async fn watch(db: impl PgExecutor<'_>, domain: &Hostname, now: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO certificate_orders (name, domain, state, since, watched_at, next_attempt_at)
         VALUES ($1, $1, 'waiting_for_dns', $2, $2, $2)
         ON CONFLICT (name) DO UPDATE
             SET watched_at = excluded.watched_at, next_attempt_at = excluded.next_attempt_at
             WHERE NOT coalesce(certificate_orders.watched_at > $3 AND certificate_orders.next_attempt_at <= $4
                                AND (certificate_orders.leased_until IS NULL OR certificate_orders.leased_until <= $2), false)",
        domain.as_str(),
        now,
        now - LOOK_SOON,
        now + LOOK_SOON,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Begins to manage certificates for the platform's own names that have none, and returns the number of new ones.
pub async fn watch_own(db: impl PgExecutor<'_>, names: &[String], now: Timestamp) -> Result<u64, sqlx::Error> {
    let watched = sqlx::query!(
        "INSERT INTO certificate_orders (name, state, since, watched_at, next_attempt_at)
         SELECT name, 'ordering', $2, $2, $2 FROM unnest($1::text[]) AS name ON CONFLICT (name) DO NOTHING",
        names,
        now,
    )
    .execute(db)
    .await?;
    Ok(watched.rows_affected())
}

/// Begins to manage certificates for at most `limit` custom domains without an order, and returns their number.
pub async fn watch_missing(db: impl PgExecutor<'_>, now: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let watched = sqlx::query!(
        "INSERT INTO certificate_orders (name, domain, state, since, watched_at, next_attempt_at)
         SELECT d.domain, d.domain, 'waiting_for_dns', $1, $1, $1 FROM custom_domains d
          WHERE NOT EXISTS (SELECT FROM certificate_orders o WHERE o.domain = d.domain) LIMIT $2
         ON CONFLICT (name) DO NOTHING",
        now,
        limit,
    )
    .execute(db)
    .await?;
    Ok(watched.rows_affected())
}

/// A leased order.
#[derive(Debug, Clone)]
pub struct OrderClaim {
    /// The hostname, or a wildcard of the platform.
    pub name: String,
    /// The custom domain; `None` for the platform's own names.
    pub domain: Option<Hostname>,
    /// The state.
    pub state: DomainState,
    /// The time the state began.
    pub since: Timestamp,
    /// The time the certificate was last requested.
    pub watched_at: Timestamp,
    /// The number of consecutive failures at the authority.
    pub failures: i32,
    /// The account of the pending order, or of the last one that failed.
    pub account_id: Option<AcmeAccountId>,
    /// The authority's URL of the pending order.
    pub order_url: Option<String>,
    /// The sealed private key that the order was finalized with.
    pub sealed_key: Option<Vec<u8>>,
    /// Whether the pending order was counted against the account's budget.
    pub is_counted: bool,
    /// Whether the order omits `replaces`, the certificate that it replaces.
    pub forgo_replaces: bool,
    /// The current certificate.
    pub certificate_id: Option<CertificateId>,
    /// The renewal time of the current certificate.
    pub renew_at: Option<Timestamp>,
    /// The start of the renewal window that the authority suggests.
    pub window_starts_at: Option<Timestamp>,
    /// The person or account that pays for the name's project; `None` for the platform's own names.
    pub payer: Option<String>,
    turn: i64,
}

impl OrderClaim {
    /// Opens the private key of the pending order.
    pub fn open_key(&self, master: &MasterKey) -> Option<Result<Vec<u8>, OpenError>> {
        let sealed = self.sealed_key.as_ref()?;
        Some(master.open(KeyPurpose::CertificateKeys, self.name.as_bytes(), sealed))
    }
}

/// Leases at most `limit` due rows, round robin by payer. A payer's rows come in order of their due times, and at most
/// `share` of them are leased at a time by all workers together. The platform's own names count as one payer.
pub async fn claim(
    db: impl PgExecutor<'_>,
    now: Timestamp,
    until: Timestamp,
    limit: i64,
    share: i64,
) -> Result<Vec<OrderClaim>, sqlx::Error> {
    // Leased rows come first in their payer's queue, so that they count against `share`.
    sqlx::query_as!(
        OrderClaim,
        r#"WITH ready AS MATERIALIZED (
             SELECT o.name, coalesce(o.leased_until > $1, false) AS is_leased, coalesce(o.due_by, o.next_attempt_at) AS since,
                    -- Looked up for each: these tables are large, and few rows are due.
                    (SELECT payer_of(coalesce(p.org_id, p.user_id))
                     FROM custom_domains d JOIN projects p ON p.id = d.project_id WHERE d.domain = o.domain) AS payer
             FROM certificate_orders o
             WHERE o.next_attempt_at <= $1 OR o.next_attempt_at > $4),
         due AS MATERIALIZED (
             SELECT name, payer, is_leased,
                    row_number() OVER (PARTITION BY payer ORDER BY is_leased DESC, since, name) AS place
             FROM ready),
         turns AS MATERIALIZED (
             SELECT o.name, due.payer FROM due JOIN certificate_orders o ON o.name = due.name
             WHERE NOT due.is_leased AND due.place <= $5
               AND (o.next_attempt_at <= $1 OR o.next_attempt_at > $4) AND (o.leased_until IS NULL OR o.leased_until <= $1)
             ORDER BY due.place, coalesce(o.due_by, o.next_attempt_at), o.name LIMIT $3 FOR UPDATE OF o SKIP LOCKED)
         UPDATE certificate_orders o SET leased_until = $2, turn = nextval('certificate_turns')
           FROM turns WHERE o.name = turns.name
         RETURNING o.name, o.domain, o.state, o.since, o.watched_at, o.failures, o.account_id, o.order_url, o.sealed_key,
                   o.is_counted, o.forgo_replaces, o.certificate_id, o.renew_at, o.window_starts_at, turns.payer AS "payer?", o.turn"#,
        now,
        until,
        limit,
        now + LONGEST_PAUSE,
        share,
    )
    .fetch_all(db)
    .await
}

/// Extends the lease to `until`. Returns false when the lease was lost or the row deleted.
pub async fn extend_lease(db: impl PgExecutor<'_>, claim: &OrderClaim, until: Timestamp) -> Result<bool, sqlx::Error> {
    let kept = sqlx::query!(
        "UPDATE certificate_orders SET leased_until = CASE WHEN leased_until IS NOT NULL THEN $3::timestamptz END
         WHERE name = $1 AND turn = $2",
        claim.name,
        claim.turn,
        until as Timestamp,
    )
    .execute(db)
    .await?;
    Ok(kept.rows_affected() == 1)
}

/// Releases the lease without recording an attempt.
pub async fn release_lease(db: impl PgExecutor<'_>, claim: &OrderClaim) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE certificate_orders SET leased_until = NULL WHERE name = $1 AND turn = $2",
        claim.name,
        claim.turn,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Records the progress. Returns false when the lease was lost.
pub async fn record_state(
    db: impl PgExecutor<'_>,
    claim: &OrderClaim,
    state: DomainState,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let noted = sqlx::query!(
        "UPDATE certificate_orders
         SET state = $3, message = CASE WHEN state = $3 THEN message END,
             since = CASE WHEN state = $3 THEN since ELSE $4 END
         WHERE name = $1 AND turn = $2",
        claim.name,
        claim.turn,
        state.as_str(),
        now,
    )
    .execute(db)
    .await?;
    Ok(noted.rows_affected() == 1)
}

/// Records the pending order. Returns false when the lease was lost, in which case the order must be abandoned.
pub async fn record_order(
    db: impl PgExecutor<'_>,
    claim: &OrderClaim,
    account: &AcmeAccountId,
    url: &str,
    is_counted: bool,
) -> Result<bool, sqlx::Error> {
    let noted = sqlx::query!(
        "UPDATE certificate_orders SET account_id = $3, order_url = $4, sealed_key = NULL, is_counted = $5
         WHERE name = $1 AND turn = $2",
        claim.name,
        claim.turn,
        account.as_str(),
        url,
        is_counted,
    )
    .execute(db)
    .await?;
    Ok(noted.rows_affected() == 1)
}

/// Seals and records the private key for finalizing the order. Returns false when the lease was lost.
pub async fn record_key(
    db: impl PgExecutor<'_>,
    claim: &OrderClaim,
    master: &MasterKey,
    key_pem: &str,
) -> Result<bool, sqlx::Error> {
    let sealed = master.seal(KeyPurpose::CertificateKeys, claim.name.as_bytes(), key_pem.as_bytes());
    let noted = sqlx::query!(
        "UPDATE certificate_orders SET sealed_key = $3 WHERE name = $1 AND turn = $2",
        claim.name,
        claim.turn,
        sealed,
    )
    .execute(db)
    .await?;
    Ok(noted.rows_affected() == 1)
}

/// Drops the pending order, which can no longer succeed. With `forgo_replaces`, orders omit `replaces` until the name
/// has its next certificate.
pub async fn drop_order(
    db: impl PgExecutor<'_>,
    claim: &OrderClaim,
    forgo_replaces: bool,
) -> Result<bool, sqlx::Error> {
    let dropped = sqlx::query!(
        "UPDATE certificate_orders
         SET order_url = NULL, sealed_key = NULL, is_counted = false, forgo_replaces = forgo_replaces OR $3
         WHERE name = $1 AND turn = $2",
        claim.name,
        claim.turn,
        forgo_replaces,
    )
    .execute(db)
    .await?;
    Ok(dropped.rows_affected() == 1)
}

/// The next attempt at an order, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextAttempt {
    /// The state until then.
    pub state: DomainState,
    /// The obstacle, in one sentence.
    pub message: Option<String>,
    /// The time of the next attempt; `None` when there is nothing to do.
    pub at: Option<Timestamp>,
    /// The number of consecutive failures at the authority.
    pub failures: i32,
}

/// Releases the lease until the next attempt, which is immediate if the certificate was requested meanwhile. Returns
/// false when the lease was lost or [`finish`] has ended the work.
pub async fn postpone(
    db: impl PgExecutor<'_>,
    claim: &OrderClaim,
    put_off: &NextAttempt,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let noted = sqlx::query!(
        "UPDATE certificate_orders
         SET leased_until = NULL, state = $4, message = $5, since = CASE WHEN state = $4 THEN since ELSE $8 END,
             next_attempt_at = CASE WHEN watched_at = $3 THEN $6 ELSE next_attempt_at END, failures = $7
         WHERE name = $1 AND turn = $2 AND leased_until IS NOT NULL",
        claim.name,
        claim.turn,
        claim.watched_at,
        put_off.state.as_str(),
        put_off.message,
        put_off.at,
        put_off.failures,
        now,
    )
    .execute(db)
    .await?;
    Ok(noted.rows_affected() == 1)
}

/// A certificate's renewal times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenewalTimes {
    /// The time the next certificate is ordered.
    pub renew_at: Timestamp,
    /// The time by which the next certificate is due.
    pub due_by: Timestamp,
    /// The time the authority is next asked for a renewal window; `None` for certificates from elsewhere.
    pub ask_at: Option<Timestamp>,
}

/// Ends the work on an order, whose name now has this certificate, until the attempt `live`. Returns
/// false when the lease was lost, in which case the certificate must not be stored.
pub async fn finish(
    conn: &mut PgConnection,
    claim: &OrderClaim,
    certificate: &CertificateId,
    times: &RenewalTimes,
    live: &NextAttempt,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let finished = sqlx::query!(
        "UPDATE certificate_orders
         SET leased_until = NULL, state = $11, message = $9,
             since = CASE WHEN state = $11 THEN since ELSE $8 END,
             next_attempt_at = CASE WHEN watched_at = $3 THEN $10 ELSE next_attempt_at END,
             failures = $12, account_id = NULL, order_url = NULL, sealed_key = NULL, is_counted = false,
             forgo_replaces = false, certificate_id = $4, renew_at = $5, due_by = $6, ask_window_at = $7,
             window_starts_at = NULL
         WHERE name = $1 AND turn = $2",
        claim.name,
        claim.turn,
        claim.watched_at,
        certificate.as_str(),
        times.renew_at,
        times.due_by,
        times.ask_at,
        now,
        live.message,
        live.at,
        live.state.as_str(),
        live.failures,
    )
    .execute(conn)
    .await?;
    Ok(finished.rows_affected() == 1)
}

/// The state of a name's certificate, as shown to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderStatus {
    /// The progress.
    pub state: DomainState,
    /// The obstacle, in one sentence.
    pub message: Option<String>,
    /// The time the state began.
    pub since: Timestamp,
    /// The time of the next attempt; `None` when there is nothing to do.
    pub next_attempt_at: Option<Timestamp>,
}

/// Returns the state of a custom domain; `None` when no certificate is managed for it.
pub async fn status(db: impl PgExecutor<'_>, domain: &Hostname) -> Result<Option<OrderStatus>, sqlx::Error> {
    sqlx::query_as!(
        OrderStatus,
        "SELECT state, message, since, next_attempt_at FROM certificate_orders WHERE domain = $1",
        domain.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// Returns the number of consecutive failures at authorities for a custom domain.
pub async fn count_failures(db: impl PgExecutor<'_>, domain: &Hostname) -> Result<i32, sqlx::Error> {
    let failures = sqlx::query_scalar!("SELECT failures FROM certificate_orders WHERE domain = $1", domain.as_str());
    Ok(failures.fetch_optional(db).await?.unwrap_or_default())
}

/// Returns the number of names in each state, leaving out states without names.
pub async fn count_by_state(db: impl PgExecutor<'_>) -> Result<Vec<(DomainState, i64)>, sqlx::Error> {
    let rows = sqlx::query!(r#"SELECT state, count(*) AS "count!" FROM certificate_orders GROUP BY state"#)
        .fetch_all(db)
        .await?;
    Ok(rows.into_iter().map(|row| (row.state, row.count)).collect())
}
