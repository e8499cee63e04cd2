//! Bounds of what is read of bodies that nobody asked for.

/// Bytes that are read of a body that nobody asked for, so that its sender receives the answer.
pub(crate) const UNWANTED_BODY_BYTES: usize = 1024 * 1024;
