//! Projects: their rows, deployments, variables, custom domains and shares, and what is kept of deleted ones.
//!
//! Permits to act on a project are in the folder `permits`, its repository in `code_host`, what edges read of it in
//! `edges`. Start with [`Project`].

mod access;
pub mod claims;
pub mod deleted;
pub mod deployments;
pub mod domains;
pub mod env;
mod lifecycle;
pub mod lookup;
pub(crate) mod project;
pub mod shares;
mod summaries;
pub mod suspended_orgs;
pub mod suspension;
mod transfer;

pub use self::{
    access::{NewAccess, SetAccessError, set_access},
    lifecycle::{CreateError, DeleteError, create, delete},
    project::{Order, Owners, Project, page, with_domain, with_push},
    summaries::{Summary, summaries},
    transfer::{Destination, TransferError, transfer},
};
