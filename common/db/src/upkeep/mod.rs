//! Upkeep of the service: job leases, stored idempotent responses, expiring deployments, packs (removals, trash,
//! faults, copies), sealed columns, the database's identity and its store and keys, backups, restores, and backlogs.
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
