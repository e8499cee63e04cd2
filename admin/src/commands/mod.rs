//! The operator's commands that have a file of their own: their arguments and output.

pub(crate) mod backup;
pub(crate) mod edge_rights;
pub(crate) mod lost_changes;
pub(crate) mod restore;
pub(crate) mod store;
pub(crate) mod take_over;
