//! The limits of the edge, one file per crate, each with the reason for its size where that is not obvious.
//!
//! A test finds limits that are declared elsewhere. The limits of a crate are here under its name.

mod agents;
mod clients;
mod front;
mod gate;
mod gateway;
mod health;
mod http;
mod listen;
mod memory;
mod meter;
mod metrics;
#[cfg(test)]
mod payers;
mod platform;
mod resume;
mod shares;
mod sites;
mod spool;
#[cfg(test)]
mod tests;
mod traces;
mod traffic;
mod traffic_journal;

pub use self::{
    agents::*, clients::*, front::*, gate::*, gateway::*, health::*, http::*, listen::*, memory::*, meter::*,
    metrics::*, platform::*, resume::*, sites::*, spool::*, traces::*, traffic::*, traffic_journal::*,
};
pub use self::{
    http::blocking_threads,
    shares::{MemoryShares, MemorySharesError},
};
