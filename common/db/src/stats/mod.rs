//! Statistics of sites: what the edges counted, by hour and by day.
//!
//! [`traffic`] is what they write, [`report`] what people read, [`upkeep`] what jobs do with it. The counting itself is in the
//! edge. Start with [`traffic::record`].

pub mod report;
pub mod traffic;
pub mod upkeep;
