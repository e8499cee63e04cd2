//! The certificate queries of the operator's tool `certs`.

use domain::{AcmeAccountId, CertificateId, Timestamp, certificates::DomainState};
use sqlx::PgExecutor;

/// The state of a name's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedCertificate {
    /// The progress.
    pub state: DomainState,
    /// The obstacle, in one sentence.
    pub message: Option<String>,
    /// The time of the next attempt; `None` when there is nothing to do.
    pub next_attempt_at: Option<Timestamp>,
    /// The current certificate.
    pub certificate_id: Option<CertificateId>,
    /// The renewal time of the current certificate.
    pub renew_at: Option<Timestamp>,
}

/// Returns the state of a name; `None` when no certificate is managed for it.
pub async fn find_status(db: impl PgExecutor<'_>, name: &str) -> Result<Option<ManagedCertificate>, sqlx::Error> {
    sqlx::query_as!(
        ManagedCertificate,
        "SELECT state, message, next_attempt_at, certificate_id, renew_at FROM certificate_orders WHERE name = $1",
        name,
    )
    .fetch_optional(db)
    .await
}

/// Makes the next attempt for a name due now. Returns false when no certificate is managed for it.
pub async fn try_now(db: impl PgExecutor<'_>, name: &str, now: Timestamp) -> Result<bool, sqlx::Error> {
    let armed =
        sqlx::query!("UPDATE certificate_orders SET watched_at = $2, next_attempt_at = $2 WHERE name = $1", name, now,)
            .execute(db)
            .await?;
    Ok(armed.rows_affected() == 1)
}

/// Makes the renewal of every ACME-issued certificate due now, and returns their number.
pub async fn renew_all(db: impl PgExecutor<'_>, now: Timestamp) -> Result<u64, sqlx::Error> {
    let due = sqlx::query!(
        "UPDATE certificate_orders o SET renew_at = $1, due_by = $1
           FROM certificates c WHERE o.state = 'live' AND c.id = o.certificate_id AND c.source = 'acme'",
        now,
    )
    .execute(db)
    .await?;
    Ok(due.rows_affected())
}

/// A certificate issued to one of our accounts.
#[derive(Debug, Clone)]
pub struct IssuedCertificate {
    /// The id.
    pub id: CertificateId,
    /// The covered DNS names.
    pub names: Vec<String>,
    /// The chain as PEM, leaf first.
    pub chain_pem: String,
    /// The account that it was issued to.
    pub account_id: AcmeAccountId,
}

/// Returns at most `limit` unexpired certificates for a name that were issued to our accounts, the newest first.
pub async fn list_issued(
    db: impl PgExecutor<'_>,
    name: &str,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<IssuedCertificate>, sqlx::Error> {
    sqlx::query_as!(
        IssuedCertificate,
        r#"SELECT id, names, chain_pem, account_id AS "account_id!" FROM certificates
            WHERE names @> ARRAY[$1::text] AND not_after > $2 AND account_id IS NOT NULL
            ORDER BY created_at DESC LIMIT $3"#,
        name,
        now,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Marks a certificate as revoked, so that no name with another one uses it. [`announce`](super::announce) notifies
/// edges.
pub async fn mark_revoked(db: impl PgExecutor<'_>, id: &CertificateId, now: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE certificates SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1", id.as_str(), now)
        .execute(db)
        .await
        .map(drop)
}

/// A name whose renewal is overdue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateRenewal {
    /// The name.
    pub name: String,
    /// The time its next certificate was due.
    pub due_by: Timestamp,
    /// The obstacle, in one sentence.
    pub message: Option<String>,
}

/// Returns at most `limit` names whose next certificate is overdue, the most overdue first.
pub async fn list_late(db: impl PgExecutor<'_>, now: Timestamp, limit: i64) -> Result<Vec<LateRenewal>, sqlx::Error> {
    sqlx::query_as!(
        LateRenewal,
        r#"SELECT name, due_by AS "due_by!", message FROM certificate_orders
            WHERE certificate_id IS NOT NULL AND due_by <= $1 ORDER BY due_by, name LIMIT $2"#,
        now,
        limit,
    )
    .fetch_all(db)
    .await
}
