//! Our accounts at certificate authorities, one live account per directory. Their keys are sealed with the master key.

use domain::{AcmeAccountId, Timestamp};
use secrets::{KeyPurpose, MasterKey, master_key::OpenError};
use sqlx::PgExecutor;

/// An account at a certificate authority.
#[derive(Debug, Clone)]
pub struct AcmeAccount {
    /// Our id.
    pub id: AcmeAccountId,
    /// The directory URL of its authority.
    pub directory_url: String,
    /// The authority's URL of the account.
    pub url: String,
    /// The sealed credentials.
    pub sealed_credentials: Vec<u8>,
    /// The time before which the authority accepts no requests of the account.
    pub held_until: Option<Timestamp>,
}

impl AcmeAccount {
    /// Opens the credentials.
    pub fn open_credentials(&self, master: &MasterKey) -> Result<Vec<u8>, OpenError> {
        master.open(KeyPurpose::AcmeAccounts, self.id.as_str().as_bytes(), &self.sealed_credentials)
    }
}

/// Returns the live account at a directory.
pub async fn find_live(db: impl PgExecutor<'_>, directory_url: &str) -> Result<Option<AcmeAccount>, sqlx::Error> {
    sqlx::query_as!(
        AcmeAccount,
        "SELECT id, directory_url, url, sealed_credentials, held_until
           FROM acme_accounts WHERE directory_url = $1 AND retired_at IS NULL",
        directory_url,
    )
    .fetch_optional(db)
    .await
}

/// Returns an account, live or retired.
pub async fn by_id(db: impl PgExecutor<'_>, id: &AcmeAccountId) -> Result<Option<AcmeAccount>, sqlx::Error> {
    sqlx::query_as!(
        AcmeAccount,
        "SELECT id, directory_url, url, sealed_credentials, held_until FROM acme_accounts WHERE id = $1",
        id.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// Stores a newly registered account with sealed credentials. Returns false when the directory already has a live
/// account: another admin was faster, and its account is the one to use.
pub async fn store(
    db: impl PgExecutor<'_>,
    master: &MasterKey,
    directory_url: &str,
    url: &str,
    credentials: &str,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let id = AcmeAccountId::new(now);
    let sealed = master.seal(KeyPurpose::AcmeAccounts, id.as_str().as_bytes(), credentials.as_bytes());
    let stored = sqlx::query!(
        "INSERT INTO acme_accounts (id, directory_url, url, sealed_credentials, created_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (directory_url) WHERE retired_at IS NULL DO NOTHING",
        id.as_str(),
        directory_url,
        url,
        sealed,
        now,
    )
    .execute(db)
    .await?;
    Ok(stored.rows_affected() == 1)
}

/// Replaces an account's credentials, after its key was changed at the authority.
pub async fn replace_credentials(
    db: impl PgExecutor<'_>,
    master: &MasterKey,
    id: &AcmeAccountId,
    credentials: &str,
) -> Result<(), sqlx::Error> {
    let sealed = master.seal(KeyPurpose::AcmeAccounts, id.as_str().as_bytes(), credentials.as_bytes());
    sqlx::query!("UPDATE acme_accounts SET sealed_credentials = $2 WHERE id = $1", id.as_str(), sealed)
        .execute(db)
        .await
        .map(drop)
}

/// Retires an account, so that the next order registers another one.
pub async fn retire(db: impl PgExecutor<'_>, id: &AcmeAccountId, now: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE acme_accounts SET retired_at = $2 WHERE id = $1 AND retired_at IS NULL", id.as_str(), now)
        .execute(db)
        .await
        .map(drop)
}

/// Holds all orders of the account until `until`, as the authority requested.
pub async fn hold(db: impl PgExecutor<'_>, id: &AcmeAccountId, until: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE acme_accounts SET held_until = greatest(held_until, $2) WHERE id = $1", id.as_str(), until)
        .execute(db)
        .await
        .map(drop)
}
