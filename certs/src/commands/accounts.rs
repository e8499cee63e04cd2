//! The configured authorities, and our accounts there.

use anyhow::Context as _;
use certs::acme::{AcmeAuthority, AuthorityAccount};
use config::{Config, acme::AcmeDirectory};
use db::certificates::accounts::AcmeAccount;
use domain::AcmeAccountId;
use secrets::MasterKey;
use sqlx::PgPool;

use super::NO_DATABASE;

/// Returns the configured directories, each with the name of its setting.
pub(super) fn directories(config: &Config) -> Vec<(&'static str, AcmeDirectory)> {
    let primary = ("acme", config.acme.primary());
    std::iter::once(primary).chain(config.acme.fallback.clone().map(|second| ("acme.fallback", second))).collect()
}

/// Returns the authority with this directory. One that is no longer configured is contacted by its URL alone.
pub(super) fn authority(config: &Config, directory_url: &str) -> anyhow::Result<AcmeAuthority> {
    let configured = directories(config).into_iter().map(|(_, directory)| directory);
    let known = configured.into_iter().find(|directory| directory.directory_url.as_str() == directory_url);
    let directory = match known {
        Some(directory) => directory,
        None => AcmeDirectory {
            directory_url: directory_url.parse().with_context(|| format!("{directory_url} is no URL"))?,
            contact: None,
            ca_file: None,
            external_account: None,
        },
    };
    Ok(AcmeAuthority::new(&directory, &config.acme.profile)?)
}

pub(super) fn credentials(account: &AcmeAccount, master_key: &MasterKey) -> anyhow::Result<String> {
    let opened = account.open_credentials(master_key);
    let opened = opened.with_context(|| format!("no key of the key file opens the credentials of {}", account.url))?;
    String::from_utf8(opened).with_context(|| format!("the credentials of {} are damaged", account.url))
}

/// Loads the account that a certificate was issued to.
pub(super) async fn account(
    config: &Config,
    db: &PgPool,
    master_key: &MasterKey,
    id: &AcmeAccountId,
) -> anyhow::Result<AuthorityAccount> {
    let stored = db::certificates::accounts::by_id(db, id).await.context(NO_DATABASE)?;
    let stored = stored.with_context(|| format!("the account {id} is not stored any more"))?;
    let credentials = credentials(&stored, master_key)?;
    Ok(authority(config, &stored.directory_url)?.account(&credentials).await?)
}
