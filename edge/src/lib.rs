//! The edge: TLS, hosts, the memory of routes, sites, gates, and the way to admin.
//!
//! [`listen`] accepts connections and speaks TLS; [`front`] reads a request's host and chooses who answers: [`sites`],
//! or [`platform`], which hands on to admin. [`route`] remembers which site a host is. A warm request touches memory
//! only: no query, no lock that another request holds across a wait.

pub mod front;
pub mod gate;
pub mod gateway;
mod limits;
pub mod listen;
pub mod metrics;
pub mod platform;
pub mod route;
pub mod sites;
pub mod spool;
