//! What an edge remembers of what changes, the reads that fill the memory, and the changes that empty it.
//!
//! [`recall`] is the read-through memory, [`marks`] knows which of its readings are still current, [`follow`] hears of
//! changes, [`progress`] judges them and raises marks, [`awake`] says when some may have been missed; SQL is in `db`. Start with
//! [`recall`], then [`Routes::site`].

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
    challenges::Challenges,
    marks::{Marks, Moment, Reading},
    members::{Members, Membership, OrgMembers},
    recall::{RecallError, Recollection},
    sites::{RecentDeployments, Routes},
    source::{Postgres, Source},
};
