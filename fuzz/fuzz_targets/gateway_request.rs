//! Feeds the judge of requests for completions, and reads what would be sent as serde does.

#![no_main]

use std::sync::LazyLock;

use gateway_checks::WireChecks;
use libfuzzer_sys::fuzz_target;

static WIRE: LazyLock<WireChecks> = LazyLock::new(|| WireChecks::new().expect("the shipped models"));

fuzz_target!(|body: &[u8]| {
    if let Err(violation) = WIRE.check_request(body) {
        panic!("{violation}");
    }
});
