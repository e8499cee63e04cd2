//! Rows of tables that ignored tests print: what they measure acts upon worlds of their own, of the programs built here.

use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::world::World;

/// A place of tests in the workspace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Suite {
    /// In the folder `tests`: worlds of the programs built here.
    BlackBox,
    /// Beside the code.
    Units,
}

impl Suite {
    /// Cargo's options that choose its targets.
    fn target(self) -> &'static [&'static str] {
        match self {
            Self::BlackBox => &["--test", "blackbox"],
            Self::Units => &["--lib"],
        }
    }
}

/// The rows that the tests of a suite whose names contain `tests` print. Of the installation here they have the PostgreSQL.
pub(crate) fn rows(world: &World, suite: Suite, tests: &str) -> anyhow::Result<Vec<String>> {
    // Not optimised: they would take as long to build as everything else.
    let mut command = Command::new("cargo");
    command
        .args(["test", "--locked", "--workspace"])
        .args(suite.target())
        .args(["--", "--ignored", "--nocapture", "--test-threads", "1", tests])
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
