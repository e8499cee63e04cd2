//! What attacks take of an edge, and what others feel of them: the figures that `tests/attacks/figures` prints.
//!
//! The attackers are the tests' own, and so are their worlds; of the installation here they have the PostgreSQL.

use std::{
    fmt::Write as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};

use crate::{Effort, world::World};

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
        let rows = rows(world, &format!("attacks::figures::{tests}"))?;
        write!(text, "\n{head}\n{}\n", rows.join("\n"))?;
    }
    Ok(text)
}

/// The rows that the tests with this prefix print.
fn rows(world: &World, tests: &str) -> anyhow::Result<Vec<String>> {
    // Not optimised: they would take as long to build as everything else.
    let mut command = Command::new("cargo");
    command
        .args(["test", "--locked", "--workspace", "--test", "blackbox", "--"])
        .args(["--ignored", "--nocapture", "--test-threads", "1", tests])
        .env("SQLX_OFFLINE", "true")
        .env("SVC_TEST_PROGRAMS", World::programs()?)
        .env("SVC_TEST_POSTGRES_URL", &world.up.postgres_url);
    let output = command.stderr(Stdio::inherit()).output().context("cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{tests}:\n{text}");
    // libtest prints the name of the test before what the test prints.
    let rows = text.lines().filter_map(|line| Some(line[line.find("| ")?..].to_owned()));
    let rows: Vec<String> = rows.inspect(|row| eprintln!("  {row}")).collect();
    ensure!(!rows.is_empty(), "{tests} printed nothing:\n{text}");
    Ok(rows)
}
