//! Packs a folder or a file into the gzipped tarball that the API accepts.
//!
//! [`walk`] selects the files and checks the limits, [`left_out`] and [`dependencies`] decide what is excluded, and
//! [`archive`] writes the tarball. The same files always give the same bytes: sorted, without owners, modes or times.

mod archive;
mod dependencies;
mod left_out;
mod walk;

pub(crate) use archive::{PackedArchive, write};
pub(crate) use left_out::SkippedFiles;
pub(crate) use walk::{LinkedFile, Selection, likely_build_folder, select};
