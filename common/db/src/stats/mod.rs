//! Statistics of sites, as counted by the edges, by hour and by day.
//!
//! Edges write [`traffic`], people read [`report`] and share it by [`public`], and plans read [`bandwidth`]. Jobs
//! maintain it with [`upkeep`] and [`months`]. [`salts`] keep visitors anonymous, and [`agents`] has published data
//! about agents. Counting is in the edge. Start with [`traffic::record`].

pub mod agents;
pub mod bandwidth;
pub mod months;
pub mod public;
pub mod report;
pub mod salts;
pub mod traffic;
pub mod upkeep;
