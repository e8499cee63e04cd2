//! The operator's commands that have a file of their own: their arguments, and what they print.

pub(crate) mod backup;
pub(crate) mod restore;
