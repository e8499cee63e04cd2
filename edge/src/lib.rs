//! The edge: TLS, hosts, the memory of what changes, sites, gates, the AI gateway, and the way to admin.
//!
//! [`listen`] accepts connections and speaks TLS; [`front`] reads a request's host and chooses who answers: [`sites`],
//! [`gateway`], or [`platform`], which hands on to admin. [`memory`] remembers which site a host is. A warm request
//! touches memory only: no query, no lock that another request holds across a wait. [`health`] looks after all of it, and is asked by
//! nobody here.
//!
//! The rooms, from the top; none imports one that stands above it (a test in `rooms.rs` reads the sources):
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
