//! What attacks take of an edge, and what others feel of them: the figures that `tests/attacks/figures` prints.
//!
//! The attackers are the tests' own.

use std::fmt::Write as _;

use crate::{
    Effort,
    printed::{self, Suite},
    world::World,
};

/// A table: the tests that print its rows begin with this, and its head.
const TABLES: [(&str, &str); 3] = [
    (
        "f",
        "| attack | resident MB at most | files at most | requests of another client | failed | p99 ms | slowest ms |\n\
         |---|--:|--:|--:|--:|--:|--:|",
    ),
    ("uploads", "| one account | deploys of 1 MB by another | median s | slowest s |\n|---|--:|--:|--:|"),
    (
        "idle",
        "| idle connections, TLS, HTTP/1.1 | resident MB before | with them | a minute after they have gone |\n|--:|--:|--:|--:|",
    ),
];

pub(crate) fn measure(world: &World, _: Effort) -> anyhow::Result<String> {
    let mut text = "An edge with `edge.memory` of 512 MB; its attackers, and the client and the account that are measured, are on \
                    the same two cores, and built for debugging. Each attack lasts a minute, on an edge of its own.\n"
        .to_owned();
    for (tests, head) in TABLES {
        let rows = printed::rows(world, Suite::BlackBox, &format!("attacks::figures::{tests}"))?;
        write!(text, "\n{head}\n{}\n", rows.join("\n"))?;
    }
    Ok(text)
}
