//! `admin doctor`: checks everything that svc depends on, and prints one line each, with advice. It works while parts
//! are down, because that is when it is needed.
//!
//! The checks run concurrently, each with a timeout. The dependencies of certificates are checked by `certs doctor`.

mod machine;
mod network;
mod parts;
mod service;
mod store;

use std::{future::Future, pin::Pin, time::Duration};

use config::Config;
pub use diagnosis::CheckReport;
use diagnosis::{CheckOutcome, fail, warn, within};
use futures_util::future::join_all;

const WITHIN: Duration = Duration::from_secs(8);

/// The checks that query Postgres, apart from `postgres` itself.
const OF_POSTGRES: [&str; 11] = [
    "pooler",
    "migrations",
    "connections",
    "edge roles",
    "failover",
    "clock of postgres",
    "jobs",
    "usage export",
    "backup",
    "packs",
    "sweep",
];
/// The checks that query Redis, apart from `redis` itself.
const OF_REDIS: [&str; 4] = ["eviction", "persistence", "clock of redis", "edges"];

type PendingCheck<'a> = Pin<Box<dyn Future<Output = CheckOutcome> + Send + 'a>>;

/// Runs every check.
pub async fn examine(config: &Config) -> CheckReport {
    let mut checks: Vec<(String, PendingCheck<'_>)> = Vec::new();
    let mut add = |name: &str, check: PendingCheck<'static>| checks.push((name.to_owned(), check));
    match db::connect(&config.postgres, &config.postgres.url) {
        Err(error) => {
            let finding = fail(error.to_string(), "set postgres.url right");
            add("postgres", Box::pin(std::future::ready(finding)));
        }
        Ok(db) => {
            add("postgres", Box::pin(parts::postgres(db.clone(), config.postgres.clone())));
            add("pooler", Box::pin(parts::pooler(db.clone(), config.postgres.clone())));
            add("migrations", Box::pin(parts::migrations(db.clone())));
            add("connections", Box::pin(parts::connections(db.clone(), config.postgres.max_connections)));
            add("edge roles", Box::pin(parts::edge_roles(db.clone())));
            add("failover", Box::pin(parts::failover(db.clone())));
            add("lost changes", Box::pin(service::lost_changes(db.clone())));
            add("clock of postgres", Box::pin(machine::clock_of_postgres(db.clone())));
            add("jobs", Box::pin(service::jobs(db.clone())));
            add("usage export", Box::pin(service::usage_export(db.clone(), config.telemetry.usage_url.is_some())));
            add("backup", Box::pin(service::backup(db.clone())));
            add("packs", Box::pin(store::packs(db.clone())));
            add("sweep", Box::pin(store::sweep(db.clone())));
            add("store", Box::pin(store::store(config.clone(), db.clone())));
            add("redis", Box::pin(parts::redis(config.redis.clone(), db)));
        }
    }
    match live::Redis::connect_trusting(&config.redis.url, config.redis.ca_file.as_deref()) {
        Err(error) => {
            let finding = fail(error.to_string(), "set redis.url right");
            add("redis url", Box::pin(std::future::ready(finding)));
        }
        Ok(redis) => {
            add("eviction", Box::pin(parts::eviction(redis.clone())));
            add("persistence", Box::pin(parts::persistence(redis.clone())));
            add("clock of redis", Box::pin(machine::clock_of_redis(redis.clone())));
            add("edges", Box::pin(service::edges(redis)));
        }
    }
    let key_of = config.clone();
    add("master key", Box::pin(async move { diagnosis::master_key(&key_of).await }));
    add("mail", Box::pin(network::mail(config.mail.clone(), config.site.clone())));
    add("code host", Box::pin(network::code_host(config.code_host.clone())));
    for (name, host) in network::own_names(&config.site) {
        add(&format!("DNS of {name}"), Box::pin(network::compare_addresses(host, config.site.dns_target.clone())));
    }
    for (name, folder) in machine::folders(config) {
        add(&format!("disk of {name}"), Box::pin(machine::disk(folder, config.admin.free_disk_percent)));
    }
    let (names, under_way): (Vec<_>, Vec<_>) = checks.into_iter().unzip();
    let findings = join_all(under_way.into_iter().map(|check| within(WITHIN, check))).await;
    let mut found: Vec<(String, CheckOutcome)> = names.into_iter().zip(findings).collect();
    collapse_failures(&mut found, "postgres", "PostgreSQL", &OF_POSTGRES);
    collapse_failures(&mut found, "redis", "Redis", &OF_REDIS);
    let mut report = CheckReport::default();
    for (name, finding) in found {
        report.add(name, finding);
    }
    report
}

/// Replaces the checks `rest` by one line if all of them failed because their part, which the check `cause` covers, is
/// down.
fn collapse_failures(found: &mut Vec<(String, CheckOutcome)>, cause: &str, part: &str, rest: &[&str]) {
    let has_failed = |name: &str| found.iter().any(|(known, finding)| known == name && diagnosis::is_failure(finding));
    if !has_failed(cause) || !rest.iter().all(|name| has_failed(name)) {
        return;
    }
    found.retain(|(name, _)| !rest.contains(&&**name));
    let said = format!("{part} is away, so that these are not known: {}", rest.join(", "));
    let at = found.iter().position(|(name, _)| name == cause).map_or(found.len(), |at| at + 1);
    found.insert(at, (format!("{cause} (rest)"), warn(said, format!("see `{cause}`"))));
}
