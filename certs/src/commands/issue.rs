//! `certs issue`: waits while admin orders certificates.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    time::Duration,
};

use anyhow::Context as _;
use certs::local_ca;
use config::{Config, acme::CertificateIssuer};
use db::certificates::{operations, orders};
use domain::{Clock, Hostname, certificates::DomainState};
use serde::Serialize;
use sqlx::PgPool;
use tokio::time::Instant;

use super::{CommandOutcome, NO_DATABASE, database};

const LOOK_EVERY: Duration = Duration::from_millis(500);
const NAMES: usize = 100;

/// The last known state of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct NameProgress {
    state: DomainState,
    message: Option<String>,
}

pub(super) async fn run(config: &Config, names: &[String], wait: u64, json: bool) -> anyhow::Result<CommandOutcome> {
    anyhow::ensure!(
        config.acme.issuer != CertificateIssuer::None,
        "acme.issuer is `none`: nobody issues certificates here; set it, or bring one with `certs import`"
    );
    anyhow::ensure!(names.len() <= NAMES, "at most {NAMES} names in one call");
    let (names, db) = (local_ca::hostnames(names)?, database(config)?);
    for name in &names {
        order(config, &db, name).await?;
    }
    let (deadline, mut known) = (Instant::now() + Duration::from_secs(wait), BTreeMap::new());
    while !look(&db, &names, &mut known, json).await? && Instant::now() < deadline {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let waiting = known.values().filter(|progress| progress.state != DomainState::Live).count();
    let text = || match waiting {
        0 => "done; edges present the new certificates within a second".to_owned(),
        _ => format!("not there after {wait} s; admin goes on, and `certs issue` may be run again to look"),
    };
    CommandOutcome::formatted(&known, json, text, waiting == 0)
}

/// Creates the row of a name, or makes its next attempt due now.
async fn order(config: &Config, db: &PgPool, name: &str) -> anyhow::Result<()> {
    let now = Clock::system().now();
    let own = [&config.site.site_domain, &config.site.share_domain].map(|domain| format!("*.{domain}"));
    if own.iter().any(|own| own == name) {
        orders::watch_own(db, &[name.to_owned()], now).await.context(NO_DATABASE)?;
    }
    if operations::try_now(db, name, now).await.context(NO_DATABASE)? {
        return Ok(());
    }
    let nobodys = || {
        format!(
            "{name} is attached to no project, and is not one of the platform's own names ({}): attach it with \
             `svc domains add {name} --project <project>`",
            own.join(", ")
        )
    };
    let hostname: Hostname = name.parse().ok().with_context(nobodys)?;
    match orders::watch(db, &hostname, now).await {
        Ok(()) => Ok(()),
        Err(error) if error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_foreign_key_violation) => {
            anyhow::bail!(nobodys())
        }
        Err(error) => Err(error).context(NO_DATABASE),
    }
}

/// Checks every name, prints changes, and returns whether all are live.
async fn look(
    db: &PgPool,
    names: &[String],
    known: &mut BTreeMap<String, NameProgress>,
    json: bool,
) -> anyhow::Result<bool> {
    let mut all_live = true;
    for name in names {
        let standing = operations::find_status(db, name).await.context(NO_DATABASE)?;
        let standing = standing.with_context(|| format!("{name} was detached meanwhile"))?;
        // A due check that has not run yet says nothing new.
        let is_due = standing.next_attempt_at.is_some_and(|at| at <= Clock::system().now());
        let is_live = standing.state == DomainState::Live && standing.certificate_id.is_some() && !is_due;
        all_live &= is_live;
        let state =
            if standing.state == DomainState::Live && !is_live { DomainState::Checking } else { standing.state };
        let progress = NameProgress { state, message: standing.message };
        if !json && known.get(name) != Some(&progress) {
            let message = progress.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
            let _ = writeln!(io::stdout(), "{name}: {}{message}", state.as_str().replace('_', " "));
        }
        known.insert(name.clone(), progress);
    }
    Ok(all_live)
}
