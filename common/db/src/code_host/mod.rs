//! What the code host is to us: grants, installations of our app, linked repositories, and pushes that wait.
//!
//! Calls to the code host are admin's; signing in with it is in the folder `sign_in`. Start with [`installations`].

pub mod grants;
pub mod installations;
pub mod repo_deploys;
pub mod repo_heads;
pub mod repo_links;
pub mod sharing;
pub mod webhook_deliveries;
