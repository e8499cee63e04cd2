//! Programs whose clocks are wrong. libfaketime, under which Redis runs, does not suit them: with an allocator in the program
//! itself, as the edge has one, it never gets through the program's start.

use std::{path::Path, process::Command};

use super::process::run;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/world/wrong_clock.c");

/// Gives a program a clock that is so many seconds ahead of the machine's. What that takes is built in `folder`.
pub(super) fn set_ahead(command: &mut Command, folder: &Path, seconds: i64) {
    let library = folder.join("wrong_clock.so");
    if !library.exists() {
        let flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"];
        run(Command::new("cc").args(flags).arg(&library).arg(SOURCE));
    }
    command.env("LD_PRELOAD", library).env("SVC_TEST_SECONDS_AHEAD", seconds.to_string());
}
