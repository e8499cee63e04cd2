//! Feeds the judge of requests for completions, and reads what would be sent as serde does.

#![no_main]

use std::sync::LazyLock;

use edge::gateway::wire::Wire;
use libfuzzer_sys::fuzz_target;

static WIRE: LazyLock<Wire> = LazyLock::new(|| Wire::new().expect("the shipped models"));

fuzz_target!(|body: &[u8]| {
    if let Err(violation) = WIRE.check_request(body) {
        panic!("{violation}");
    }
});
