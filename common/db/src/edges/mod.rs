//! The rows that edges read, and the record of changes that invalidates their caches.
//!
//! The AI gateway's rows are in the folder `gateway`, the rights of an edge's role in [`roles`]. Start with [`routes`].

pub mod lost_changes;
pub mod positions;
pub mod roles;
pub mod route_changes;
pub mod routes;
