//! Bounds on what many share, each kept in all and for each key: a client, an account.
//!
//! A bound in all alone protects the machine and nobody else: whoever is greedy takes the whole of it. A fixed share alone
//! protects nobody from a few who are greedy together. So a share shrinks as the whole fills, and a customer with many
//! addresses or organizations has one for all of them ([`Payer::group`]), and one turn in the queue. Everything is held in
//! memory only, per program, and a key is forgotten with the last thing that it holds. Start with [`Turns`], which bounds
//! numbers; [`Amounts`] bounds what grows while it is used, [`Room`] what is waited for and taken whole,
//! [`budget`] bytes of memory on a path that is hot, and [`Rates`] bytes in time.

mod amounts;
pub mod budget;
mod client;
mod lines;
mod payer;
mod rates;
mod room;
mod turns;

pub use self::{
    amounts::{Amounts, Held},
    client::Client,
    payer::Payer,
    rates::{Booking, Rate, Rates},
    room::{Place, Room, RoomBounds},
    turns::{Bounds, Refused, Turn, Turns},
};
