//! `certs renew`

use std::fmt::Write as _;

use anyhow::Context as _;
use certs::local_ca;
use config::Config;
use db::certificates::{
    operations::{self, ManagedCertificate},
    renewals,
};
use domain::{Clock, Timestamp, certificates::DomainState};
use serde::Serialize;

use super::{CommandOutcome, NO_DATABASE, database};

#[derive(Serialize)]
struct RenewalOutcome {
    due: u64,
    /// The names whose renewal is already in progress.
    under_way: Vec<PendingRenewal>,
    /// The names without a renewable certificate.
    refused: Vec<String>,
}

#[derive(Serialize)]
struct PendingRenewal {
    name: String,
    /// The obstacle to the renewal, in one sentence.
    message: Option<String>,
    next_attempt_at: Option<Timestamp>,
}

pub(super) async fn run(config: &Config, names: &[String], all: bool, json: bool) -> anyhow::Result<CommandOutcome> {
    let (now, db) = (Clock::system().now(), database(config)?);
    let mut renewals = RenewalOutcome { due: 0, under_way: Vec::new(), refused: Vec::new() };
    if all {
        renewals.due = operations::renew_all(&db, now).await.context(NO_DATABASE)?;
    }
    for name in local_ca::hostnames(names)? {
        if renewals::renew_now(&db, &name, now).await.context(NO_DATABASE)? {
            renewals.due += 1;
            continue;
        }
        match operations::find_status(&db, &name).await.context(NO_DATABASE)? {
            Some(ManagedCertificate { state: DomainState::Renewing, message, next_attempt_at, .. }) => {
                renewals.under_way.push(PendingRenewal { name, message, next_attempt_at });
            }
            _ => renewals.refused.push(name),
        }
    }
    let text = || {
        let mut said = match renewals.due {
            0 if !renewals.under_way.is_empty() => "nothing is left to begin".to_owned(),
            0 => "no renewal is due".to_owned(),
            1 => "1 renewal is due now; admin begins within a minute".to_owned(),
            due => format!("{due} renewals are due now; admin begins within a minute, as fast as the authority allows"),
        };
        for PendingRenewal { name, message, next_attempt_at } in &renewals.under_way {
            let message = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
            let next = next_attempt_at.map(|at| format!("; the next attempt is due at {at}")).unwrap_or_default();
            let _ =
                write!(said, "\n{name} is being renewed already{message}{next} (`certs issue {name}` has it made now)");
        }
        for name in &renewals.refused {
            let _ = write!(
                said,
                "\n{name} has no certificate that admin looks after: see `certs list`, and `certs issue {name}` for a \
                 first one"
            );
        }
        said
    };
    CommandOutcome::formatted(&renewals, json, text, renewals.refused.is_empty())
}
