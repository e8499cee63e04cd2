//! Feeds the reader of streamed answers, whole and in pieces. The first byte of the input says how the others are cut.

#![no_main]

use std::sync::LazyLock;

use gateway_checks::WireChecks;
use libfuzzer_sys::fuzz_target;

static WIRE: LazyLock<WireChecks> = LazyLock::new(|| WireChecks::new().expect("the shipped models"));

fuzz_target!(|input: &[u8]| {
    if let Err(violation) = WIRE.check_frames(input) {
        panic!("{violation}");
    }
});
