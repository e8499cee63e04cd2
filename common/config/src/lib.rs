//! Configuration: one optional `svc.toml`, overridden by environment `SVC__SECTION__KEY`.
//!
//! Each section is a file in `sections`, where its keys are documented. An unknown key is an error that names the
//! nearest known one. The programs themselves define what a value means to them. Start with [`Config::load`], which a
//! program calls when it starts; [`reload`] defines what it takes over when it reads the configuration again.

mod aliases;
mod load;
pub mod machine;
mod model_routes;
pub mod models;
#[cfg(test)]
mod page;
pub mod reload;
mod sections;
mod shown;
mod size;

pub use load::{ConfigError, missing_file};
pub use sections::{
    Admin, Backup, Billing, BillingProvider, CodeHost, CodeHostKind, Edge, HttpMode, InvoiceSeller, Limits, Mail,
    PoolerMode, Postgres, Redis, Secrets, Site, Stats, StatsSource, Store, Telemetry,
};
pub use sections::{
    acme::{self, Acme},
    gateway::{self, Gateway},
};
pub use shown::without_password;
pub use size::ByteSize;

use serde::{Deserialize, Serialize};

/// The whole configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Domains and public addresses.
    pub site: Site,
    /// The database.
    pub postgres: Postgres,
    /// The cache and message bus.
    pub redis: Redis,
    /// The object store for deployment packs.
    pub store: Store,
    /// Backups.
    pub backup: Backup,
    /// The edge program.
    pub edge: Edge,
    /// The admin program.
    pub admin: Admin,
    /// The code host that people sign in with.
    pub code_host: CodeHost,
    /// The AI gateway.
    pub gateway: Gateway,
    /// Plans and payment.
    pub billing: Billing,
    /// The source of statistics.
    pub stats: Stats,
    /// Email to users.
    pub mail: Mail,
    /// Certificate issuers.
    pub acme: Acme,
    /// Rate limits.
    pub limits: Limits,
    /// Encryption keys.
    pub secrets: Secrets,
    /// Data that is sent to the operator's own systems.
    pub telemetry: Telemetry,
}
