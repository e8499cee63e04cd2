//! Feeds the reader of JSON objects, and compares it with serde.

#![no_main]

use gateway_checks::WireChecks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Err(violation) = WireChecks::check_fields(input) {
        panic!("{violation}");
    }
});
