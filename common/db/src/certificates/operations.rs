//! What an operator sees and sets of certificates, by the tool `certs`.

use domain::{AcmeAccountId, CertificateId, Timestamp, certificates::DomainState};
use sqlx::PgExecutor;

/// The state of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its progress.
    pub state: DomainState,
    /// The obstacle, in one sentence.
    pub message: Option<String>,
    /// The time of the next attempt; none while nothing is to be done.
    pub next_attempt_at: Option<Timestamp>,
    /// The certificate that it has.
    pub certificate_id: Option<CertificateId>,
    /// The time of that one's renewal.
    pub renew_at: Option<Timestamp>,
}

/// Returns how a name stands; none when no certificate is looked after for it.
pub async fn standing(db: impl PgExecutor<'_>, name: &str) -> Result<Option<Standing>, sqlx::Error> {
    sqlx::query_as!(
        Standing,
        "SELECT state, message, next_attempt_at, certificate_id, renew_at FROM certificate_orders WHERE name = $1",
        name,
    )
    .fetch_optional(db)
    .await
}

/// Has a name that is looked after already tried now. Returns false when it is not.
pub async fn try_now(db: impl PgExecutor<'_>, name: &str, now: Timestamp) -> Result<bool, sqlx::Error> {
    let armed =
        sqlx::query!("UPDATE certificate_orders SET watched_at = $2, next_attempt_at = $2 WHERE name = $1", name, now,)
            .execute(db)
            .await?;
    Ok(armed.rows_affected() == 1)
}

/// Has every certificate that an authority issued renewed, beginning now, and returns their number.
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

/// A certificate that an account of ours was given.
#[derive(Debug, Clone)]
pub struct Issued {
    /// Id of its row.
    pub id: CertificateId,
    /// DNS names it covers.
    pub names: Vec<String>,
    /// Leaf first, PEM.
    pub chain_pem: String,
    /// The account that it was issued to.
    pub account_id: AcmeAccountId,
}

/// Returns at most `limit` certificates for a name that accounts of ours were given and that are valid, the newest first.
pub async fn issued(
    db: impl PgExecutor<'_>,
    name: &str,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<Issued>, sqlx::Error> {
    sqlx::query_as!(
        Issued,
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

/// Notes that a certificate is revoked: it serves no name from now on that has another. Edges are told by
/// [`announce`](super::announce).
pub async fn note_revoked(db: impl PgExecutor<'_>, id: &CertificateId, now: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE certificates SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1", id.as_str(), now)
        .execute(db)
        .await
        .map(drop)
}

/// A name whose renewal is late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Late {
    /// The name.
    pub name: String,
    /// The time by which its next certificate should have been there.
    pub due_by: Timestamp,
    /// The obstacle, in one sentence.
    pub message: Option<String>,
}

/// Returns at most `limit` names whose next certificate should be there by now, the latest first.
pub async fn late(db: impl PgExecutor<'_>, now: Timestamp, limit: i64) -> Result<Vec<Late>, sqlx::Error> {
    sqlx::query_as!(
        Late,
        r#"SELECT name, due_by AS "due_by!", message FROM certificate_orders
            WHERE certificate_id IS NOT NULL AND due_by <= $1 ORDER BY due_by, name LIMIT $2"#,
        now,
        limit,
    )
    .fetch_all(db)
    .await
}
