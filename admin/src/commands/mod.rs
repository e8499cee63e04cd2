//! Commands of the operator that are groups of their own, one file each: the arguments, and what is printed.

pub(crate) mod store;
