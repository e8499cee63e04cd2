//! The load that trains a build of the edge: the compiler optimizes what the edge does most under it.
//!
//! It covers sites and completions, of all sizes and over both versions of HTTP, in the parts that the bench measures.
//! An edge built for training writes its profile when it ends.

use crate::{gateway, serving, world::BenchWorld};

/// Seconds of each kind of load. A training build is slower, but counts: more of the same adds nothing.
const SECONDS: u32 = 2;

pub(crate) fn run(world: &BenchWorld) -> anyhow::Result<()> {
    serving::train(world, SECONDS)?;
    gateway::train(world, SECONDS)
}
