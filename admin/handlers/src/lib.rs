//! API handlers, one folder or file per noun, as in the URLs: parse → proof → one transaction → view.

pub mod access;
pub mod ai;
pub mod ai_aliases;
pub mod ai_requests;
pub mod audit;
pub mod billing;
pub mod deleted_projects;
pub mod deployments;
pub mod device;
pub mod docs;
pub mod domains;
pub mod env;
pub mod events;
pub mod health;
pub mod invites;
pub mod me;
pub mod orgs;
pub mod projects;
pub mod repo;
pub mod sessions;
pub mod shares;
pub mod suspensions;
pub mod tokens;
pub mod transfer;
pub mod usage;
pub mod vcs;
