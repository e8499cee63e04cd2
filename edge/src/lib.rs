//! The edge program: the parts that watch and wire the crates beside it.
//!
//! Each folder of `edge/` is a crate; `ARCHITECTURE.md` has their map. [`listen`] accepts connections and terminates
//! TLS. [`front`] reads a request's host and routes it to [`sites`], [`gateway`], or [`platform`], which proxies to
//! admin. [`memory`] maps hosts to sites. A warm request uses memory only: no query, and no lock that another request
//! holds across an await. [`health`] watches all of it; no other module depends on it.

pub mod health;
pub mod ownership;
pub mod reload;
