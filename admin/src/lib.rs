//! The program of the control plane: the index of its routes, its sockets, and the operator's commands.
//!
//! Each folder of `admin/` is a crate; `ARCHITECTURE.md` has their map. Start with [`router`], the index of all routes;
//! a URL's noun is a file or folder of [`handlers`]. SQL is in `db`, rules without IO in `domain`. The edge serves sites,
//! and the crate `certs` issues certificates.

pub mod backups;
pub mod doctor;
mod listener;
pub mod programs;
pub mod readiness;
pub mod reload;
pub mod router;
pub mod serve;
pub mod talkers;
