//! Projects: their rows, deployments, variables, custom domains and shares, and the data kept of deleted ones.
//!
//! Permits are in the folder `permits`, repositories in `code_host`, the rows for edges in `edges`. Start with
//! [`Project`].

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
