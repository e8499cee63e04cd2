//! Limits on shared resources, in total and per key (a client, an account).
//!
//! A total limit alone protects the machine but lets one greedy key take everything. A fixed share alone does not
//! protect against a few greedy keys together. So a share shrinks as the resource fills up, and a customer with many
//! addresses or organizations has one share for all of them ([`Payer::group`]) and one turn in the queue. State is in
//! memory only, per program, and a key is forgotten with its last holding. Start with [`TurnQueue`], which limits counts;
//! [`AmountLimit`] limits what grows during use, [`SizedRoom`] what is acquired whole and waited for, [`budget`] bytes of memory
//! on a hot path, and [`RateLimiter`] bytes over time.

mod amounts;
pub mod budget;
mod client;
mod lines;
mod payer;
mod rates;
mod room;
mod turns;

pub use self::{
    amounts::{AmountLimit, HeldAmount},
    client::Client,
    payer::Payer,
    rates::{BookingOutcome, RateLimit, RateLimiter},
    room::{RoomBounds, RoomPlace, SizedRoom},
    turns::{ShareError, TurnBounds, TurnPermit, TurnQueue},
};
