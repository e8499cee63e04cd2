//! Upkeep of the service: leases of jobs, answers that are kept for repetition, deployments that expire,
//! packs to remove, those with faults and those that were copied, sealed columns, the database's identity.
//!
//! The jobs themselves are in admin. Start with [`job_leases`].

pub mod database;
pub mod deployments;
pub mod idempotency;
pub mod job_leases;
pub mod pack_copies;
pub mod pack_faults;
pub mod pack_removals;
pub mod sealed;
