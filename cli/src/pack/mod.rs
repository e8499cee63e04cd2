//! From a folder or a file to the gzipped tarball that the API takes.
//!
//! [`walk`] selects what belongs in it and judges the limits, [`left_out`] what does not, [`dependencies`] which packages do;
//! [`archive`] writes it. The same files always give the same bytes: sorted, without owners, modes or times.

mod archive;
mod dependencies;
mod left_out;
mod walk;

pub(crate) use archive::{Archive, write};
pub(crate) use left_out::Skipped;
pub(crate) use walk::{Linked, Selection, likely_build_folder, select};
