//! The control plane: the REST API, sign-in, and the jobs that keep the rest in order.
//!
//! Start with [`router`], the index of every route; a URL's noun is a file or folder of [`api`]. SQL is in
//! `db`, rules without IO in `domain`. Not here: serving sites (edge), issuing certificates (certs).

pub mod api;
pub mod app;
pub mod auth;
pub mod bounds;
pub mod codehost;
/// The console's own addresses.
pub mod console {
    mod addresses;

    pub use self::addresses::{Console, OwnPath, paths, with_back};
}
pub mod edges;
pub mod error;
pub mod extract;
pub mod html;
mod jobs;
pub mod mail;
pub mod metrics;
pub mod middleware;
pub mod pages;
pub mod router;
pub mod serve;
