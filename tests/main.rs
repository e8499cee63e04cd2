//! Black-box tests: the real programs with a real Postgres and Redis, seen from outside as a person, a program or an
//! attacker sees them. One file per noun of the API; [`world`] is what they act upon, [`stubs`] stand for the internet.
//!
//! Run with `make test`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "a test may fail by panicking, and nothing here is anybody's interface"
)]

mod access;
mod access_matrix;
mod acme_client;
mod admins;
mod archives;
mod attacks;
mod audit;
mod backups;
mod billing;
mod browser;
mod bucket;
mod certificates;
mod certs_tool;
mod changes;
mod cli;
mod cli_orgs;
mod cli_people;
mod codehost;
mod console;
mod custom_domains;
mod deleted_projects;
mod deployments;
mod device;
mod dns_updates;
mod documents;
mod domains;
mod downloads;
mod edge_rights;
mod env;
mod epochs;
mod errors;
mod errors_of_programs;
mod events;
mod files;
mod gate;
mod gateway;
mod generated_clients;
mod handbook;
mod health;
mod hostile_http;
mod hostile_tls;
mod idempotency;
mod idle;
mod invalidation;
mod invites;
mod invoices;
mod letters;
mod mail;
mod master_key;
mod metering;
mod metrics;
mod observe;
mod open_tabs;
mod openapi;
mod org_gate;
mod orgs;
mod ownership;
mod payers;
mod payments;
mod platform_cache;
mod pooler;
mod postgres;
mod programs;
mod projects;
mod proxy_protocol;
mod readiness;
mod redis_cluster;
mod redis_logins;
mod reload;
mod schemathesis;
mod serving;
mod sessions;
mod shares;
mod shutdown;
mod sign_in;
mod statements;
mod states;
mod stats;
mod store_damage;
mod stubs;
mod suspension;
mod tls;
mod tokens;
mod transfer;
mod trash;
mod upgrades;
mod world;

/// The time after which a test gives up waiting for work in the background. It bounds a hang and asserts no speed.
const BACKGROUND: std::time::Duration = std::time::Duration::from_secs(30);
