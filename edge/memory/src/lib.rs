//! The edge's caches of mutable state, the reads that fill them, and the changes that invalidate them.
//!
//! [`recall`] is the read-through cache, [`marks`] knows which readings are still current, [`follow`] receives changes,
//! [`progress`] decides about them and raises marks, and [`awake`] detects when some may have been missed. SQL is in
//! `db`. Start with [`recall`], then [`RouteCache::site`].

pub mod awake;
pub mod certificates;
mod challenges;
pub mod follow;
pub mod keys;
pub mod marks;
mod members;
mod progress;
pub mod recall;
mod sites;
mod source;
#[cfg(test)]
mod tests;
mod unknown;

pub use self::{
    challenges::ChallengeReader,
    marks::{AppliedMoment, ChangeMarks, ChangeReading},
    members::{MemberLookup, MembershipCache, OrgMembership},
    recall::{CacheReadError, Cached},
    sites::{RecentDeployments, RouteCache},
    source::{PostgresSource, RouteSource},
};
