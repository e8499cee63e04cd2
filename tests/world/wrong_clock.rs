//! Programs with wrong clocks. libfaketime, which is used for Redis, does not work here: with an allocator in the
//! program itself, as in the edge, it hangs during startup.

use std::{path::Path, process::Command};

use super::process::run;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/world/wrong_clock.c");

/// Sets a program's clock some seconds ahead of the machine's. The required files are built in `folder`.
pub(super) fn set_ahead(command: &mut Command, folder: &Path, seconds: i64) {
    let library = folder.join("wrong_clock.so");
    if !library.exists() {
        let flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"];
        run(Command::new("cc").args(flags).arg(&library).arg(SOURCE));
    }
    command.env("LD_PRELOAD", library).env("SVC_TEST_SECONDS_AHEAD", seconds.to_string());
}
