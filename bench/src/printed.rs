//! Collects rows of tables that ignored tests print. These tests run in their own worlds with the programs built here.

use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::world::BenchWorld;

#[derive(Debug, Clone, Copy)]
pub(crate) enum TestSuite {
    /// The folder `tests`: worlds of the programs built here.
    BlackBox,
    /// Unit tests beside the code.
    Units,
}

impl TestSuite {
    fn target(self) -> &'static [&'static str] {
        match self {
            Self::BlackBox => &["--test", "blackbox"],
            Self::Units => &["--lib"],
        }
    }
}

/// Runs the tests of a suite whose names contain `tests`, on this PostgreSQL. Returns the rows that they print.
pub(crate) fn rows(world: &BenchWorld, suite: TestSuite, tests: &str) -> anyhow::Result<Vec<String>> {
    // Not optimized: such a build would take as long as everything else.
    let mut command = Command::new("cargo");
    command
        .args(["test", "--locked", "--workspace"])
        .args(suite.target())
        .args(["--", "--ignored", "--nocapture", "--test-threads", "1", tests])
        .env("SQLX_OFFLINE", "true")
        .env("SVC_TEST_PROGRAMS", BenchWorld::programs()?)
        .env("SVC_TEST_POSTGRES_URL", &world.up.postgres_url);
    let output = command.stderr(Stdio::inherit()).output().context("cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{tests}:\n{text}");
    // libtest prints the name of the test before its output.
    let rows = text.lines().filter_map(|line| Some(line[line.find("| ")?..].to_owned()));
    let rows: Vec<String> = rows.inspect(|row| eprintln!("  {row}")).collect();
    ensure!(!rows.is_empty(), "{tests} printed nothing:\n{text}");
    Ok(rows)
}
