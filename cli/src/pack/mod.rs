//! From a folder or a file to the gzipped tarball that the API takes.
//!
//! [`walk`] decides what belongs in it and judges the limits; [`archive`] writes it. The same files always give the
//! same bytes: sorted, without owners, modes or times.

mod archive;
mod walk;

pub(crate) use archive::{Archive, write};
pub(crate) use walk::{Linked, Selection, Skipped, likely_build_folder, select};
