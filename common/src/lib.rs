//! The shared kernel of svc: what both programs and their tools agree on.
//!
//! Rules without IO live in [`domain`], wire types in [`api`], SQL in [`db`], deployment packs in
//! [`store`]. There is no binary here, and nothing here knows HTTP statuses.

pub mod api;
pub mod config;
pub mod db;
pub mod domain;
pub mod redis;
pub mod routes;
pub mod secrets;
pub mod store;
pub mod telemetry;

/// The brand, wherever an identifier carries it: token prefix, `X-Svc-*` headers, model namespace, client name.
pub const BRAND: &str = "svc";
