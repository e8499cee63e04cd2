//! Upkeep of the service: leases of jobs, answers that are kept for repetition, deployments that expire,
//! packs to remove, in the trash, with faults, and those that were copied, sealed columns, the database's identity and whose the
//! parts beside it are, backups and restores, what waits.
//!
//! The jobs themselves are in admin. Start with [`job_leases`].

pub mod backlogs;
pub mod backups;
pub mod database;
pub mod deployments;
pub mod held_packs;
pub mod idempotency;
pub mod identity;
pub mod job_leases;
pub mod master_key;
pub mod pack_copies;
pub mod pack_faults;
pub mod pack_removals;
pub mod restores;
pub mod sealed;
pub mod store_sweep;
