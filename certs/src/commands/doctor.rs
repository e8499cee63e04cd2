//! `certs doctor`: checks everything that issuing certificates depends on.

mod edges;

use std::time::Duration;

use anyhow::Context as _;
use certs::{acme::AcmeAuthority, dns01::RecordWriter};
use config::{
    Config,
    acme::{AcmeDirectory, CertificateIssuer, ChallengeType},
};
use db::{
    certificates::{accounts as stored_accounts, operations, orders},
    upkeep::sealed::Column,
};
use diagnosis::CheckReport;
use domain::{Clock, certificates::DomainState};
use secrets::{MasterKey, master_key::TAG_LEN};
use sqlx::PgPool;

use super::{CommandOutcome, accounts, database, master_key};

const BATCH: i64 = 500;
/// The limit of delayed names that are listed.
const TOLD: usize = 10;
const RESOLVER_WITHIN: Duration = Duration::from_secs(5);
/// The label of the test record.
const LABEL: &str = "_svc-doctor";

/// The outcome of a check: the finding, or the problem and its remedy.
type DoctorFinding = Result<String, (String, String)>;

pub(super) async fn run(config: &Config, json: bool) -> anyhow::Result<CommandOutcome> {
    let mut checks = CheckReport::default();
    let master_key = master_key(config);
    checks.add("master key", diagnosis::master_key(config).await);
    let db = database(config);
    let db = checks.add_with(
        "database",
        match db {
            Ok(db) => match orders::count_by_state(&db).await {
                Ok(counts) => Ok((describe_counts(&counts), db)),
                Err(error) => failed(error.to_string(), "is it running, and has `admin migrate` been run?"),
            },
            Err(error) => failed(format!("{error:#}"), "set postgres.url"),
        },
    );
    if let (Some(db), Ok(master_key)) = (&db, &master_key) {
        checks.add("stored keys", stored_keys(db, master_key).await);
    }
    if config.acme.issuer == CertificateIssuer::Acme {
        for (setting, directory) in accounts::directories(config) {
            checks.add(format!("directory of {setting}"), reachable(config, &directory).await);
            if let (Some(db), Ok(master_key)) = (&db, &master_key) {
                checks.add(format!("account of {setting}"), account(config, db, master_key, &directory).await);
            }
        }
        checks.add("resolvers", resolvers(config).await);
    } else {
        let said = match config.acme.issuer {
            CertificateIssuer::Local => "`local`: the local authority signs names under localhost",
            _ => "`none`: certificates are imported (`certs import`)",
        };
        checks.add("issuer", DoctorFinding::Ok(said.to_owned()));
    }
    checks.add("DNS records", records(config).await);
    if let Some(db) = &db {
        checks.add("renewals", renewals(db).await);
        checks.add("edges", edges::check(config, db).await);
    }
    let is_good = checks.is_good();
    CommandOutcome::formatted(&checks.checks(), json, || checks.lines(), is_good)
}

fn failed<T>(message: String, fix: &str) -> Result<T, (String, String)> {
    Err((message, fix.to_owned()))
}

fn describe_counts(counts: &[(DomainState, i64)]) -> String {
    let counts = counts.iter().map(|(state, count)| format!("{count} {}", state.as_str().replace('_', " ")));
    let counts = counts.collect::<Vec<_>>().join(", ");
    if counts.is_empty() { "no certificate is looked after".to_owned() } else { format!("certificates: {counts}") }
}

/// Decrypts every sealed value, as programs do on use.
async fn stored_keys(db: &PgPool, master_key: &MasterKey) -> DoctorFinding {
    let (mut opened, mut closed) = (0, Vec::new());
    let columns = [Column::Certificates, Column::CertificateOrders, Column::AcmeAccounts];
    for column in columns {
        let mut after = String::new();
        loop {
            // Every row is read, because this tag belongs to no key.
            let rows = column.stale(db, &[0; TAG_LEN], &after, BATCH).await;
            let rows = rows.map_err(|error| (error.to_string(), "see `database`".to_owned()))?;
            let Some(last) = rows.last() else { break };
            after.clone_from(&last.row);
            for row in rows {
                match master_key.open(column.purpose(), &column.identity(&row.row), &row.sealed) {
                    Ok(_) => opened += 1,
                    Err(_) => closed.push(format!("{} {}", column.name(), row.row)),
                }
            }
        }
    }
    match closed.first() {
        None => Ok(format!("all {opened} open")),
        Some(first) => failed(
            format!("{} of {} open with no key of the key file, {first} first", closed.len(), opened + closed.len()),
            "put the key that they were sealed with into the key file, as another line; deploy/runbook/certificates.md \
             (\"The master key is lost\") says how to replace what is lost",
        ),
    }
}

async fn reachable(config: &Config, directory: &AcmeDirectory) -> DoctorFinding {
    let asked = async {
        let authority = AcmeAuthority::new(directory, &config.acme.profile)?;
        authority.caa_identities().await
    };
    match asked.await {
        Ok(identities) if identities.is_empty() => Ok(directory.directory_url.to_string()),
        Ok(identities) => Ok(format!("{} (CAA: {})", directory.directory_url, identities.join(", "))),
        Err(error) => failed(
            error.to_string(),
            "can this machine reach it (curl), and is acme.ca_file right? The certificates in use are not affected",
        ),
    }
}

async fn account(config: &Config, db: &PgPool, master_key: &MasterKey, directory: &AcmeDirectory) -> DoctorFinding {
    let url = directory.directory_url.as_str();
    let stored = match stored_accounts::find_live(db, url).await {
        Ok(Some(stored)) => stored,
        Ok(None) => return Ok("none yet; the first order registers one".to_owned()),
        Err(error) => return failed(error.to_string(), "see `database`"),
    };
    let confirmed = async {
        let credentials = accounts::credentials(&stored, master_key)?;
        accounts::authority(config, url)?.confirm(&credentials).await?;
        anyhow::Ok(stored.url.clone())
    };
    match confirmed.await {
        Ok(account) => match stored.held_until.filter(|until| *until > Clock::system().now()) {
            None => Ok(account),
            Some(until) => failed(
                format!("{account} may order nothing before {until}: the authority asked for it"),
                "wait; acme.fallback is a second authority for such times",
            ),
        },
        Err(error) => failed(
            format!("{}: {error:#}", stored.url),
            "if the authority has closed it, the next order registers another: `certs issue NAME`",
        ),
    }
}

/// Resolves the hostname of the authority.
async fn resolvers(config: &Config) -> DoctorFinding {
    let host = config.acme.directory_url.host_str().unwrap_or_default().to_owned();
    let port = config.acme.directory_url.port_or_known_default().unwrap_or(443);
    let configured = &config.acme.resolvers;
    if configured.is_empty() {
        let asked = tokio::time::timeout(RESOLVER_WITHIN, tokio::net::lookup_host((host.as_str(), port)));
        return match asked.await {
            Ok(Ok(_)) => Ok(format!("this machine's, which know {host}")),
            _ => failed(format!("this machine's do not know {host}"), "set acme.resolvers, or see to /etc/resolv.conf"),
        };
    }
    let mut silent = Vec::new();
    for resolver in configured {
        if let Err(error) = certs::dns01::query_resolver(resolver, &config.site.site_domain).await {
            silent.push(format!("{resolver} ({error})"));
        }
    }
    match silent.len() {
        0 => Ok(format!("all {} answer", configured.len())),
        _ => failed(
            format!("no answer from {}", silent.join(", ")),
            "set acme.resolvers to servers that answer over TCP",
        ),
    }
}

async fn records(config: &Config) -> DoctorFinding {
    let dns = &config.acme.dns;
    let writer = match RecordWriter::from_config(dns) {
        Ok(Some(writer)) => writer,
        Ok(None)
            if config.acme.issuer != CertificateIssuer::Acme
                || !config.acme.challenges.contains(&ChallengeType::Dns01) =>
        {
            return Ok("not written here".to_owned());
        }
        Ok(None) => {
            return Ok("not written here: wildcards get no certificate by themselves, and no domain can delegate \
                       (acme.dns)"
                .to_owned());
        }
        Err(error) => return failed(error.to_string(), "set it right in svc.toml"),
    };
    let zone = dns.rfc2136.as_ref().and_then(|updates| updates.zone.as_ref()).or(dns.zone.as_ref());
    let name = format!("{LABEL}.{}", zone.unwrap_or(&config.site.site_domain).trim_end_matches('.'));
    let value = format!("certs doctor {}", Clock::system().now().unix_millis());
    let tried = async {
        writer.add(&name, &value).await?;
        writer.remove(&name, &value).await
    };
    match tried.await {
        Ok(()) => Ok(format!("added and removed one at {name}")),
        Err(error) => failed(error.to_string(), "set acme.dns right, or the key's rights at the name server"),
    }
}

async fn renewals(db: &PgPool) -> DoctorFinding {
    let limit = i64::try_from(TOLD + 1).unwrap_or(i64::MAX);
    let late = operations::list_late(db, Clock::system().now(), limit).await.context("renewals");
    let late = late.map_err(|error| (format!("{error:#}"), "see `database`".to_owned()))?;
    if late.is_empty() {
        return Ok("none is late".to_owned());
    }
    let names = late.iter().take(TOLD).map(|late| match &late.message {
        Some(message) => format!("{} since {} ({message})", late.name, late.due_by),
        None => format!("{} since {}", late.name, late.due_by),
    });
    let more = if late.len() > TOLD { " and more" } else { "" };
    let names = names.collect::<Vec<_>>().join(", ");
    failed(format!("late: {names}{more}"), "see to what fails above; then `certs issue NAME` tries at once")
}
