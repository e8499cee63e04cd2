//! The code host: grants, installations of our app, linked repositories, and pending pushes.
//!
//! Calls to the code host are in admin; signing in with it is in the folder `sign_in`. Start with [`installations`].

pub mod grants;
pub mod installations;
pub mod repo_deploys;
pub mod repo_heads;
pub mod repo_links;
pub mod sharing;
pub mod webhook_deliveries;
