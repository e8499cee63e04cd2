//! The commands, one file per noun: their arguments, the API calls they make and what they print.
//!
//! [`crate::args`] parses the command line, and [`crate::dispatch`] chooses the command. Start with [`deploy`].

pub(crate) mod access;
pub(crate) mod ai;
pub(crate) mod audit;
pub(crate) mod billing;
mod browser;
pub(crate) mod deploy;
pub(crate) mod deployments;
pub(crate) mod domains;
pub(crate) mod env;
pub(crate) mod invites;
pub(crate) mod key_limits;
mod keys;
pub(crate) mod login;
pub(crate) mod members;
pub(crate) mod notifications;
pub(crate) mod orgs;
mod password;
pub(crate) mod projects;
mod propagation;
mod publish;
pub(crate) mod repo;
pub(crate) mod sessions;
pub(crate) mod share;
pub(crate) mod shares;
pub(crate) mod skill;
pub(crate) mod stats;
mod suspensions;
pub(crate) mod tokens;
pub(crate) mod transfer;
pub(crate) mod vcs;
