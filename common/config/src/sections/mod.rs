//! The sections of the configuration, one file each. Every key is documented where it is defined.

pub mod acme;
mod admin;
mod backup;
mod billing;
mod code_host;
mod edge;
pub mod gateway;
mod limits;
mod mail;
mod postgres;
mod quirks;
mod redis;
mod secrets;
mod site;
mod stats;
mod store;
mod telemetry;
mod usage_fields;

use std::net::SocketAddr;

use url::Url;

pub use self::{
    admin::Admin,
    backup::Backup,
    billing::{Billing, BillingProvider, InvoiceSeller},
    code_host::{CodeHost, CodeHostKind},
    edge::{Edge, HttpMode},
    limits::Limits,
    mail::Mail,
    postgres::{PoolerMode, Postgres},
    redis::Redis,
    secrets::Secrets,
    site::Site,
    stats::{Stats, StatsSource},
    store::Store,
    telemetry::Telemetry,
};

#[expect(clippy::expect_used, reason = "only constants are parsed")]
fn url(text: &str) -> Url {
    text.parse().expect("a constant URL")
}

#[expect(clippy::expect_used, reason = "only constants are parsed")]
fn address(text: &str) -> SocketAddr {
    text.parse().expect("a constant address")
}
