//! Upkeep of the service: leases of jobs, answers that are kept for repetition, deployments that expire,
//! packs to remove, sealed columns, the database's identity, what waits.
//!
//! The jobs themselves are in admin. Start with [`job_leases`].

pub mod backlogs;
pub mod database;
pub mod deployments;
pub mod idempotency;
pub mod job_leases;
pub mod pack_removals;
pub mod sealed;
