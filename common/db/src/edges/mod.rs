//! What edges read, and the record of changes by which they learn to read again.
//!
//! What the gateway of an edge reads and writes is in the folder `gateway`. What an edge's role in the
//! database may do is in [`roles`]. Start with [`routes`].

pub mod lost_changes;
pub mod positions;
pub mod roles;
pub mod route_changes;
pub mod routes;
