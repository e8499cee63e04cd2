//! Upkeep of the service: leases of jobs, answers that are kept for repetition, deployments that expire,
//! packs to remove and packs in the trash, sealed columns, the database's identity and whose the parts beside it are.
//!
//! The jobs themselves are in admin. Start with [`job_leases`].

pub mod database;
pub mod deployments;
pub mod idempotency;
pub mod identity;
pub mod job_leases;
pub mod master_key;
pub mod pack_removals;
pub mod sealed;
pub mod store_sweep;
