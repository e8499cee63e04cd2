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
pub mod tokens;

pub use self::{
    lifecycle::{CreateError, DeleteError, count_projects, create, delete, forget_deleted, rename},
    membership::{Membership, membership, roles_of_user},
    org::{Org, find_id, find_name, page},
};
