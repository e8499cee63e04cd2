//! The edge: TLS, hosts, sites, gates.

pub mod gate;
mod limits;
pub mod sites;
