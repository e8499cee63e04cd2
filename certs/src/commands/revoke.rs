//! `certs revoke`

use std::fmt::Write as _;

use anyhow::Context as _;
use certs::{acme::RevokeReason, local_ca};
use config::Config;
use db::certificates::{announce, operations, renewals};
use domain::{CertificateId, Clock};
use serde::Serialize;

use super::{CommandOutcome, NO_DATABASE, accounts, database, master_key};

/// The limit of certificates of a name revoked in one call; a second call revokes more.
const LIMIT: i64 = 100;

#[derive(Serialize)]
struct RevocationOutcome {
    revoked: Vec<CertificateId>,
    failed: Vec<String>,
    ordered: bool,
}

pub(super) async fn run(
    config: &Config,
    name: &str,
    reason: Option<RevokeReason>,
    json: bool,
) -> anyhow::Result<CommandOutcome> {
    let (now, db, master_key) = (Clock::system().now(), database(config)?, master_key(config)?);
    let names = local_ca::hostnames(&[name.to_owned()])?;
    let name = names.first().map_or(name, String::as_str);
    let issued = operations::list_issued(&db, name, now, LIMIT).await.context(NO_DATABASE)?;
    anyhow::ensure!(
        !issued.is_empty(),
        "no account of ours was given a valid certificate for {name}; one that was imported is revoked where it came \
         from"
    );
    let mut revocation = RevocationOutcome { revoked: Vec::new(), failed: Vec::new(), ordered: false };
    for certificate in issued {
        let account = accounts::account(config, &db, &master_key, &certificate.account_id).await;
        let outcome = match account {
            Ok(account) => account.revoke(&certificate.chain_pem, reason).await.map_err(anyhow::Error::from),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => {
                // If another certificate covers a name, edges present that one from now on.
                let mut tx = db.begin().await.context(NO_DATABASE)?;
                operations::mark_revoked(&mut *tx, &certificate.id, now).await.context(NO_DATABASE)?;
                announce(&mut tx, &certificate.id, certificate.names, now).await.context(NO_DATABASE)?;
                tx.commit().await.context(NO_DATABASE)?;
                revocation.revoked.push(certificate.id);
            }
            Err(error) => revocation.failed.push(format!("{}: {error:#}", certificate.id)),
        }
    }
    if !revocation.revoked.is_empty() {
        // Also if some could not be revoked: no revoked certificate should stay in use.
        revocation.ordered = renewals::renew_now(&db, name, now).await.context(NO_DATABASE)?
            || operations::try_now(&db, name, now).await.context(NO_DATABASE)?;
    }
    let text = || {
        let mut said = format!("revoked {} certificates for {name}", revocation.revoked.len());
        said.push_str(if revocation.ordered {
            "; admin orders a new one, with a new key. The old one is presented until it is there: `certs issue` waits"
        } else {
            "; no new one is ordered, because admin looks after none for this name"
        });
        for failed in &revocation.failed {
            let _ = write!(said, "\nnot revoked: {failed}");
        }
        said
    };
    CommandOutcome::formatted(&revocation, json, text, revocation.failed.is_empty())
}
