//! Feeds the reader of balancers' headers (the PROXY protocol).

#![no_main]

use listen::proxy_protocol::check;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Err(violation) = check(input) {
        panic!("{violation}");
    }
});
