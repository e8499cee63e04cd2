//! `certs rotate-account`
//!
//! The new key is stored beside the old one before it is submitted to the authority, and alone afterwards; each step is
//! one compare-and-set of the sealed credentials. After an interruption, run the command again; in the meantime, orders
//! use the key that the authority knows.

use anyhow::Context as _;
use certs::acme::{AcmeError, ProblemKind, with_next_key};
use config::Config;
use db::{
    certificates::accounts::{self as stored_accounts, AcmeAccount},
    upkeep::sealed::{Column, SealedRow},
};
use secrets::{KeyPurpose, MasterKey};
use serde::Serialize;
use sqlx::PgPool;

use super::{CommandOutcome, NO_DATABASE, accounts, database, master_key};

#[derive(Serialize)]
struct RotatedAccount {
    directory: String,
    /// The account's URL; `None` if there is no account yet.
    account: Option<String>,
    is_new: bool,
    error: Option<String>,
}

pub(super) async fn run(config: &Config, json: bool) -> anyhow::Result<CommandOutcome> {
    let (db, master_key) = (database(config)?, master_key(config)?);
    let mut rotated = Vec::new();
    for (_, directory) in accounts::directories(config) {
        let directory = directory.directory_url.to_string();
        let account = stored_accounts::find_live(&db, &directory).await.context(NO_DATABASE)?;
        let outcome = match &account {
            Some(account) => rotate(config, &db, &master_key, account).await.map(|()| true),
            None => Ok(false),
        };
        let is_new = outcome.as_ref().is_ok_and(|is_new| *is_new);
        let error = outcome.err().map(|error| format!("{error:#}"));
        rotated.push(RotatedAccount { directory, account: account.map(|account| account.url), is_new, error });
    }
    let is_good = rotated.iter().all(|rotated| rotated.error.is_none());
    let text = || {
        let line = |rotated: &RotatedAccount| match (&rotated.account, &rotated.error) {
            (_, Some(error)) => format!("{}: {error}", rotated.directory),
            (Some(account), None) => format!("{}: the account {account} has a new key", rotated.directory),
            (None, None) => format!("{}: there is no account yet; the first order registers one", rotated.directory),
        };
        rotated.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    CommandOutcome::formatted(&rotated, json, text, is_good)
}

async fn rotate(config: &Config, db: &PgPool, master_key: &MasterKey, account: &AcmeAccount) -> anyhow::Result<()> {
    let authority = accounts::authority(config, &account.directory_url)?;
    let both = with_next_key(&accounts::credentials(account, master_key)?)?;
    let before = store(db, master_key, account, &account.sealed_credentials, &both).await?;
    let new = match authority.finish_key_change(&both).await {
        Err(AcmeError::Refused(problem)) if problem.kind == ProblemKind::AccountGone => anyhow::bail!(
            "the authority does not know the account {} any more ({problem}); the next order registers another",
            account.url
        ),
        outcome => {
            outcome.context("the key is not exchanged; the account works on, and the command may be run again")?
        }
    };
    store(db, master_key, account, &before, &new).await?;
    Ok(())
}

/// Replaces the credentials that were read by new ones. Returns them sealed.
async fn store(
    db: &PgPool,
    master_key: &MasterKey,
    account: &AcmeAccount,
    before: &[u8],
    credentials: &str,
) -> anyhow::Result<Vec<u8>> {
    let identity = account.id.as_str();
    let sealed = master_key.seal(KeyPurpose::AcmeAccounts, identity.as_bytes(), credentials.as_bytes());
    let row = SealedRow { row: identity.to_owned(), sealed: before.to_vec() };
    let is_stored = Column::AcmeAccounts.replace(db, &row, &sealed).await.context(NO_DATABASE)?;
    anyhow::ensure!(is_stored, "somebody else changed the stored account meanwhile; nothing is lost: run it again");
    Ok(sealed)
}
