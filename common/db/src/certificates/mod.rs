//! Certificates: the chain in the clear, the private key sealed with the master key.
//!
//! [`orders`] has a row for each name that needs a certificate, and [`renewals`] its renewal times. [`challenges`] are
//! the responses that authorities fetch from the edges before they issue. [`accounts`] are ours at the authorities, and
//! [`budgets`] their rate limits.

pub mod accounts;
pub mod budgets;
pub mod challenges;
pub mod operations;
pub mod orders;
pub mod renewals;

use domain::{AcmeAccountId, CertificateId, Timestamp, certificates::CertificateSource, changes::ChangeSubject};
use secrets::{EdgeKey, KeyPurpose, MasterKey, master_key::OpenError};
use sqlx::{PgConnection, PgPool};

use crate::edges::route_changes::{self, PendingId};

/// A stored certificate.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The id, which is bound into the sealed key.
    pub id: CertificateId,
    /// The covered DNS names, wildcards as `*.name`.
    pub names: Vec<String>,
    /// The chain as PEM, leaf first.
    pub chain_pem: String,
    /// The sealed private key.
    pub sealed_key: Vec<u8>,
    /// The start of the validity.
    pub not_before: Timestamp,
    /// The end of the validity.
    pub not_after: Timestamp,
    /// The time it was stored.
    pub created_at: Timestamp,
    /// The time we revoked it.
    pub revoked_at: Option<Timestamp>,
}

/// A certificate to store.
#[derive(Clone)]
pub struct NewCertificate<'a> {
    /// The covered DNS names, wildcards as `*.name`.
    pub names: &'a [String],
    /// The chain as PEM, leaf first.
    pub chain_pem: &'a str,
    /// The private key as PEM, in the clear.
    pub key_pem: &'a str,
    /// The start of the validity.
    pub not_before: Timestamp,
    /// The end of the validity.
    pub not_after: Timestamp,
    /// The source of the certificate.
    pub source: CertificateSource,
    /// The account that it was issued to, if it was issued over ACME.
    pub account: Option<&'a AcmeAccountId>,
}

impl Certificate {
    /// Opens the private key (PEM).
    pub fn open_key(&self, master: &MasterKey) -> Result<Vec<u8>, OpenError> {
        master.open(KeyPurpose::CertificateKeys, self.id.as_str().as_bytes(), &self.sealed_key)
    }

    /// Opens the private key (PEM) with an edge's part of the master key.
    pub fn open_key_at_edge(&self, key: &EdgeKey) -> Result<Vec<u8>, OpenError> {
        key.open_certificate_key(self.id.as_str().as_bytes(), &self.sealed_key)
    }
}

/// Seals the key and stores the certificate, deletes expired ones, and records the change, which edges learn of within
/// seconds. Call it in a transaction.
pub async fn store(
    conn: &mut PgConnection,
    master: &MasterKey,
    certificate: &NewCertificate<'_>,
    now: Timestamp,
) -> Result<CertificateId, sqlx::Error> {
    let id = insert(&mut *conn, master, certificate, now).await?;
    announce(conn, &id, certificate.names.to_vec(), now).await?;
    Ok(id)
}

/// Stores a certificate like [`store`], but leaves recording the change to [`announce`].
pub async fn insert(
    conn: &mut PgConnection,
    master: &MasterKey,
    certificate: &NewCertificate<'_>,
    now: Timestamp,
) -> Result<CertificateId, sqlx::Error> {
    let id = CertificateId::new(now);
    let sealed = master.seal(KeyPurpose::CertificateKeys, id.as_str().as_bytes(), certificate.key_pem.as_bytes());
    sqlx::query!(
        "INSERT INTO certificates (id, names, chain_pem, sealed_key, not_before, not_after, created_at, source, account_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        id.as_str(),
        certificate.names,
        certificate.chain_pem,
        sealed,
        certificate.not_before,
        certificate.not_after,
        now,
        certificate.source.as_str(),
        certificate.account.map(AcmeAccountId::as_str),
    )
    .execute(&mut *conn)
    .await?;
    // The database's clock has to agree, because deletion is final.
    sqlx::query!("DELETE FROM certificates WHERE not_after < least($1, now())", now as Timestamp).execute(conn).await?;
    Ok(id)
}

/// Returns at most `limit` certificates of custom domains detached before `before` and not attached since, which are
/// not renewed because their orders were deleted. Imported certificates are left to the operator.
pub async fn list_orphaned(
    pool: &PgPool,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<(CertificateId, Vec<String>)>, sqlx::Error> {
    let given_up = sqlx::query_scalar!(
        "SELECT name FROM retired_names r WHERE kind = 'domain' AND retired_at < $1
           AND NOT EXISTS (SELECT FROM custom_domains WHERE domain = r.name)
         ORDER BY retired_at LIMIT $2",
        before,
        limit,
    );
    let given_up = given_up.fetch_all(pool).await?;
    let rows = sqlx::query!(
        "SELECT id, names FROM certificates
         WHERE names && $1 AND cardinality(names) = 1 AND source <> 'import' LIMIT $2",
        &given_up,
        limit,
    );
    let rows = rows.fetch_all(pool).await?;
    Ok(rows.into_iter().map(|row| (row.id, row.names)).collect())
}

/// Deletes a certificate with its private key. Returns false when it does not exist.
pub async fn delete(conn: &mut PgConnection, id: &CertificateId) -> Result<bool, sqlx::Error> {
    let deleted = sqlx::query!("DELETE FROM certificates WHERE id = $1", id.as_str()).execute(conn).await?;
    Ok(deleted.rows_affected() == 1)
}

/// Records that edges must look up the certificate of `names` again.
pub async fn announce(
    conn: &mut PgConnection,
    id: &CertificateId,
    names: Vec<String>,
    now: Timestamp,
) -> Result<PendingId, sqlx::Error> {
    route_changes::record_names(conn, ChangeSubject::Certificate(id.clone()), names, now).await
}

/// Returns the best certificate that covers any of `names`: one that is valid now, then one that was not revoked, then
/// one that covers the first of the names, then the newest.
pub async fn find_covering(
    pool: &PgPool,
    names: &[String],
    now: Timestamp,
) -> Result<Option<Certificate>, sqlx::Error> {
    sqlx::query_as!(
        Certificate,
        "SELECT id, names, chain_pem, sealed_key, not_before,
                  not_after, created_at, revoked_at
           FROM certificates WHERE names && $1
           ORDER BY not_before <= $2 AND not_after > $2 DESC, revoked_at IS NULL DESC, $1[1] = ANY (names) DESC,
                    created_at DESC LIMIT 1",
        names,
        now,
    )
    .fetch_optional(pool)
    .await
}

/// Returns the certificate of [`find_covering`] to present at the first of `names`. If that is a custom domain
/// (`is_domain`), a certificate made for it alone is presented only while the domain is attached.
pub async fn find_presented(
    pool: &PgPool,
    names: &[String],
    is_domain: bool,
    now: Timestamp,
) -> Result<Option<Certificate>, sqlx::Error> {
    sqlx::query_as!(
        Certificate,
        "SELECT id, names, chain_pem, sealed_key, not_before,
                  not_after, created_at, revoked_at
           FROM certificates
           WHERE names && $1
             AND (NOT $3 OR names <> $1[1:1] OR EXISTS (SELECT FROM custom_domains WHERE domain = $1[1]))
           ORDER BY not_before <= $2 AND not_after > $2 DESC, revoked_at IS NULL DESC, $1[1] = ANY (names) DESC,
                    created_at DESC LIMIT 1",
        names,
        now,
        is_domain,
    )
    .fetch_optional(pool)
    .await
}

/// A certificate as an operator sees it.
#[derive(Debug, Clone)]
pub struct ListedCertificate {
    /// The id.
    pub id: CertificateId,
    /// The covered DNS names.
    pub names: Vec<String>,
    /// The chain as PEM, leaf first.
    pub chain_pem: String,
    /// The start of the validity.
    pub not_before: Timestamp,
    /// The end of the validity.
    pub not_after: Timestamp,
    /// The source of the certificate.
    pub source: CertificateSource,
    /// The authority's URL of the account that it was issued to.
    pub account_url: Option<String>,
    /// Whether a newer certificate covers all its names, so that edges no longer present this one.
    pub is_replaced: bool,
}

/// Returns at most `limit` certificates after `after`, in order of expiry.
pub async fn list(
    pool: &PgPool,
    after: Option<&ListedCertificate>,
    limit: i64,
) -> Result<Vec<ListedCertificate>, sqlx::Error> {
    sqlx::query_as!(
        ListedCertificate,
        r#"SELECT c.id, c.names, c.chain_pem, c.not_before, c.not_after, c.source, a.url AS "account_url?",
                  -- Not EXISTS, by which all would be read until one is found.
                  (SELECT count(*) > 0 FROM certificates n WHERE n.names @> c.names AND n.created_at > c.created_at)
                      AS "is_replaced!"
             FROM certificates c LEFT JOIN acme_accounts a ON a.id = c.account_id
            WHERE $1::timestamptz IS NULL OR (c.not_after, c.id) > ($1, $2)
            ORDER BY c.not_after, c.id LIMIT $3"#,
        after.map(|last| last.not_after),
        after.map(|last| last.id.as_str()),
        limit,
    )
    .fetch_all(pool)
    .await
}
