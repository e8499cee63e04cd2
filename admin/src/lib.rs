//! The control plane: the REST API, sign-in, and the background jobs.
//!
//! Start with [`router`], the index of all routes; a URL's noun is a file or folder of [`api`]. SQL is in `db`, rules
//! without IO in `domain`. The edge serves sites, and the crate `certs` issues certificates.
//!
//! The modules are layered; each imports only from its own layer or from those below, which a test (`floors.rs`)
//! enforces.
//!
//! ```text
//! serve, reload, readiness, router
//! faces      api  pages  webhooks  jobs         what a caller sees: parse, prove, act, view
//! acts       publishing  joining  certificates  billing  trash  store_check  vat_checks  doctor
//!            what several faces, or the operator, do
//! requests   middleware, then auth              what happens around a handler; who is asking
//! app        app, then change                   everything a handler may use; one transaction and its consequences
//! services   addresses  authorities  backups  bounds  codehost  console_files  edges  events  fresh_traffic  gateway
//!            mail  payments  programs  rates  talkers  vat  vitals
//! base       csv  error  extract  fullness  html  metrics  quotas
//! ```
//!
//! A service takes what it needs, and nothing below `app.rs` names [`app::App`], so each can be used and tested by
//! itself.

pub mod addresses;
pub mod api;
pub mod app;
pub mod auth;
pub mod authorities;
pub mod backups;
pub mod billing;
pub mod bounds;
pub mod certificates;
pub mod change;
pub mod codehost;
pub mod console_files;
pub mod csv;
pub mod doctor;
pub mod edges;
pub mod error;
pub mod events;
pub mod extract;
#[cfg(test)]
mod floors;
pub mod fresh_traffic;
mod fullness;
pub mod gateway;
pub mod hostnames;
pub mod html;
mod jobs;
pub mod joining;
mod listener;
pub mod mail;
pub mod metrics;
pub mod middleware;
pub mod pages;
pub mod payments;
pub mod probe;
pub mod programs;
pub mod publishing;
pub mod quotas;
pub mod rates;
pub mod readiness;
pub mod reload;
pub mod router;
#[cfg(test)]
mod scarce;
pub mod serve;
pub mod store_check;
pub mod suspension;
pub mod talkers;
pub mod trash;
pub mod vat;
pub mod vat_checks;
pub mod vitals;
pub mod webhooks;
