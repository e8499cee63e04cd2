//! The load by which a build of the edge is trained: what it does most under this is what the compiler then makes fast.
//!
//! Sites and completions, of all sizes and by both versions of HTTP, in the parts that the bench measures. An edge that is built to be
//! trained writes down where its time goes when it ends.

use crate::{gateway, serving, world::World};

/// Seconds of each kind of load. Such an edge is slower, but counts: more of the same says nothing more.
const SECONDS: u32 = 2;

/// Puts the load on an edge of `world`.
pub(crate) fn run(world: &World) -> anyhow::Result<()> {
    serving::train(world, SECONDS)?;
    gateway::train(world, SECONDS)
}
