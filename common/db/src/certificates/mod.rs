//! Certificates: the chain in the clear, the private key sealed with the master key. [`challenges`] are the answers that
//! authorities look for at the edges before they issue one. [`orders`] is one row for each name that is to have a certificate,
//! [`renewals`] when it gets the next; [`accounts`] are ours at the authorities, [`budgets`] what these may still ask for.

pub mod accounts;
pub mod budgets;
pub mod challenges;
pub mod operations;
pub mod orders;
pub mod renewals;

use domain::{AcmeAccountId, CertificateId, Timestamp, certificates::CertificateSource, changes::Subject};
use secrets::{EdgeKey, MasterKey, Purpose, master_key::OpenError};
use sqlx::{PgConnection, PgPool};

use crate::edges::route_changes::{self, PendingId};

/// A certificate as stored.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The row; the sealed key opens for this row only.
    pub id: CertificateId,
    /// DNS names it covers, wildcards as `*.name`.
    pub names: Vec<String>,
    /// Leaf first, PEM.
    pub chain_pem: String,
    /// The private key, sealed.
    pub sealed_key: Vec<u8>,
    /// Valid from.
    pub not_before: Timestamp,
    /// Valid until.
    pub not_after: Timestamp,
    /// Stored at.
    pub created_at: Timestamp,
    /// Revoked at, when we had it revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A certificate to store.
#[derive(Clone)]
pub struct NewCertificate<'a> {
    /// DNS names it covers, wildcards as `*.name`.
    pub names: &'a [String],
    /// Leaf first, PEM.
    pub chain_pem: &'a str,
    /// The private key, PEM, in the clear.
    pub key_pem: &'a str,
    /// Valid from.
    pub not_before: Timestamp,
    /// Valid until.
    pub not_after: Timestamp,
    /// Where it came from.
    pub source: CertificateSource,
    /// The account that it was issued to, when an authority that speaks ACME issued it.
    pub account: Option<&'a AcmeAccountId>,
}

impl Certificate {
    /// Opens the private key, PEM.
    pub fn open_key(&self, master: &MasterKey) -> Result<Vec<u8>, OpenError> {
        master.open(Purpose::CertificateKeys, self.id.as_str().as_bytes(), &self.sealed_key)
    }

    /// Opens the private key, PEM, with what an edge has of the master key.
    pub fn open_key_at_edge(&self, key: &EdgeKey) -> Result<Vec<u8>, OpenError> {
        key.open_certificate_key(self.id.as_str().as_bytes(), &self.sealed_key)
    }
}

/// Seals the key and stores the certificate, drops those that have expired, and records the change, which edges learn of
/// within seconds. Call it in a transaction.
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

/// Does what [`store`] does without recording the change, which [`announce`] does.
pub async fn insert(
    conn: &mut PgConnection,
    master: &MasterKey,
    certificate: &NewCertificate<'_>,
    now: Timestamp,
) -> Result<CertificateId, sqlx::Error> {
    let id = CertificateId::new(now);
    let sealed = master.seal(Purpose::CertificateKeys, id.as_str().as_bytes(), certificate.key_pem.as_bytes());
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
    // Gone for good: the database's clock has to agree.
    sqlx::query!("DELETE FROM certificates WHERE not_after < least($1, now())", now as Timestamp).execute(conn).await?;
    Ok(id)
}

/// Returns at most `limit` certificates of custom domains that were given up before `before`, and that nobody has attached since.
/// Their orders went with the domains, so nobody renews them. An imported one is the operator's to remove.
pub async fn of_given_up_domains(
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

/// Deletes a certificate, and its private key with it. Returns false when it is gone already.
pub async fn delete(conn: &mut PgConnection, id: &CertificateId) -> Result<bool, sqlx::Error> {
    let deleted = sqlx::query!("DELETE FROM certificates WHERE id = $1", id.as_str()).execute(conn).await?;
    Ok(deleted.rows_affected() == 1)
}

/// Records that edges must look for the certificate of `names` again.
pub async fn announce(
    conn: &mut PgConnection,
    id: &CertificateId,
    names: Vec<String>,
    now: Timestamp,
) -> Result<PendingId, sqlx::Error> {
    route_changes::record_names(conn, Subject::Certificate(id.clone()), names, now).await
}

/// Returns the newest certificate that covers any of `names`. One that is valid now comes before others, then one that was not
/// revoked, and then one that covers the first of them.
pub async fn covering(pool: &PgPool, names: &[String], now: Timestamp) -> Result<Option<Certificate>, sqlx::Error> {
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

/// Returns the certificate of [`covering`] that is presented at the first of `names`. Where the first is somebody's domain
/// (`is_domain`), one that was made for it alone is not presented unless the domain is attached.
pub async fn presented(
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
pub struct Listed {
    /// Id of the row.
    pub id: CertificateId,
    /// DNS names it covers.
    pub names: Vec<String>,
    /// Leaf first, PEM.
    pub chain_pem: String,
    /// Valid from.
    pub not_before: Timestamp,
    /// Valid until.
    pub not_after: Timestamp,
    /// Where it came from.
    pub source: CertificateSource,
    /// The authority's name of the account that it was issued to.
    pub account_url: Option<String>,
    /// Whether a newer one covers all its names, so that edges present it no more.
    pub is_replaced: bool,
}

/// Returns at most `limit` certificates after `after`, in the order of their expiry.
pub async fn list(pool: &PgPool, after: Option<&Listed>, limit: i64) -> Result<Vec<Listed>, sqlx::Error> {
    sqlx::query_as!(
        Listed,
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
