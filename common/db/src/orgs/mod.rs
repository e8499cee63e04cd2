//! Organizations: their rows, members, invites, tokens and icons.
//!
//! Permits for an org are in the folder `permits`, installations shared with it in `code_host`. Start with [`Org`].

pub mod ai_limit;
pub mod icons;
pub mod invites;
mod lifecycle;
pub mod members;
mod membership;
pub(crate) mod org;
pub mod payer;
pub mod tokens;

pub use self::{
    lifecycle::{CreateOrgError, DeleteOrgError, count_projects, create, delete, delete_records, rename},
    membership::{Membership, list_roles_for_user, membership},
    org::{Org, find_id, find_name, page},
};
