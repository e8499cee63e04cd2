//! The time until a domain has its certificate, and the cost of many certificates to an edge: the figures that
//! `tests/certificates/figures.rs` prints.

use std::fmt::Write as _;

use crate::{
    BenchEffort,
    printed::{self, TestSuite},
    world::BenchWorld,
};

/// A table: the test that prints its row, and its head.
const TABLES: [(&str, &str); 4] = [
    (
        "added_one_after_the_other",
        "From the request that attaches a domain, its DNS being right, to the first handshake with its certificate:\n\n\
         | domains, one after the other | median s | p95 s | slowest s |\n|--:|--:|--:|--:|",
    ),
    (
        "attached_at_once",
        "| domains attached at once | all live after s | not live | served | admin MB before | at most | edge MB before | at most |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|",
    ),
    (
        "drill_of_a_mass_revocation",
        "The authority pulls every certificate's window of renewal forward:\n\n\
         | certificates | not replaced | all replaced after s |\n|--:|--:|--:|",
    ),
    (
        "known_to_the_edge",
        "Full handshakes (TLS 1.3) per second of the edge's processor, and the time from the start of an edge until it answers:\n\n\
         | certificates stored | asked for | with few stored | for one of them | for all asked for | ratio | edge MB | start with few, s | with all, s |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ),
];

pub(crate) fn measure(world: &BenchWorld, _: BenchEffort) -> anyhow::Result<String> {
    let mut text =
        "Debian's pebble issues, with its own waiting off; it, the name server and whoever asks are on the same two \
                    cores, and whoever asks is built for debugging.\n"
            .to_owned();
    for (test, head) in TABLES {
        let rows = printed::rows(world, TestSuite::BlackBox, &format!("certificates::figures::{test}"))?;
        write!(text, "\n{head}\n{}\n", rows.join("\n"))?;
    }
    Ok(text)
}
