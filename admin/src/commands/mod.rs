//! Commands of the operator that have a file of their own: the arguments, and what is printed.

pub(crate) mod backup;
pub(crate) mod edge_rights;
pub(crate) mod lost_changes;
pub(crate) mod restore;
pub(crate) mod store;
pub(crate) mod take_over;
