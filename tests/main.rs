//! Black-box tests: the real programs with a real Postgres and Redis, seen from outside as a person, a program or an
//! attacker sees them. One file per noun of the API; [`world`] is what they act upon, [`stubs`] stand for the internet.
//!
//! Run with `make test`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "a test may fail by panicking, and nothing here is anybody's interface"
)]

mod health;
mod stubs;
mod world;
