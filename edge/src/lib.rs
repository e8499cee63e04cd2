//! The edge: TLS, hosts, the in-memory state of sites, gates, the AI gateway, and the proxy to admin.
//!
//! [`listen`] accepts connections and terminates TLS. [`front`] reads a request's host and routes it to [`sites`],
//! [`gateway`], or [`platform`], which proxies to admin. [`memory`] maps hosts to sites. A warm request uses memory
//! only: no query, and no lock that another request holds across an await. [`health`] watches all of it; no other
//! module depends on it.
//!
//! The modules, from the top. None imports one above it (a test in `rooms.rs` checks this):
//!
//! ```text
//! reload
//! health
//! listen
//! front
//! platform
//! ownership
//! gateway
//! sites
//! gate
//! memory
//! traffic
//! spool
//! http
//! clients
//! metrics
//! limits
//! ```

pub mod clients;
pub mod front;
pub mod gate;
pub mod gateway;
pub mod health;
pub mod http;
pub mod limits;
pub mod listen;
pub mod memory;
pub mod metrics;
pub mod ownership;
pub mod platform;
pub mod reload;
#[cfg(test)]
mod rooms;
pub mod sites;
pub mod spool;
pub mod traffic;
