//! The cost of event streams to an admin, and the time until an event has reached all of them: the figures that
//! `tests/events/figures.rs` prints.

use crate::{
    BenchEffort,
    printed::{self, TestSuite},
    world::BenchWorld,
};

const HEAD: &str = "Streams of 63 people, 16 each, straight at one admin; each event is a variable of a project of theirs, from sending \
    the request to the last stream that has it:\n\n\
    | streams | resident more when open, MB | after the events, MB | events | median ms | slowest ms |\n\
    |--:|--:|--:|--:|--:|--:|";

pub(crate) fn measure(world: &BenchWorld, _: BenchEffort) -> anyhow::Result<String> {
    let rows = printed::rows(world, TestSuite::BlackBox, "events::figures::")?;
    Ok(format!("The clients are on the same two cores, and built for debugging.\n\n{HEAD}\n{}\n", rows.join("\n")))
}
