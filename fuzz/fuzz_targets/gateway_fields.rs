//! Feeds the reader of JSON objects, and compares it with serde.

#![no_main]

use edge::gateway::wire::Wire;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Err(violation) = Wire::check_fields(input) {
        panic!("{violation}");
    }
});
