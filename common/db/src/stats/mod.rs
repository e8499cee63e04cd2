//! Statistics of sites: what the edges counted, by hour and by day.
//!
//! [`traffic`] is what they write, [`report`] what people read, [`public`] who else may, [`bandwidth`] what plans read,
//! [`upkeep`] and [`months`] what jobs do with it, [`salts`] what keeps visitors unknown, and [`agents`] what is published of agents. The
//! counting itself is in the edge. Start with [`traffic::record`].

pub mod agents;
pub mod bandwidth;
pub mod months;
pub mod public;
pub mod report;
pub mod salts;
pub mod traffic;
pub mod upkeep;
