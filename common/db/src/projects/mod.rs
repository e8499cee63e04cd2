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
    lifecycle::{CreateProjectError, DeleteProjectError, create, delete},
    project::{Project, ProjectOrder, ProjectOwners, find_by_domain, list_by_push, page},
    summaries::{ProjectListDetails, list_summaries},
    transfer::{TransferDestination, TransferError, transfer},
};
