//! Which files may be cached for ever: those whose name carries a hash of their content.
//!
//! A name proves nothing by its letters: `cafe2024.jpg` is a photograph. Two things have to come together. The site itself
//! refers to the name ([`references`]); and its hash is one ([`decision`]), by the form that a known generator writes
//! ([`names`], [`words`]), or because it is the beginning of a well-known hash of the content ([`content`]). Documents and downloads never
//! qualify. Wrong decisions cost differently: a hash that is not seen costs a revalidation, a word taken for a hash keeps an old file
//! in browsers for a year. What is uncertain is therefore no fingerprint.

mod content;
mod decision;
#[cfg(test)]
mod fixtures;
mod names;
mod references;
mod words;

pub(super) use content::Verified;
pub(super) use decision::{Fingerprints, Source};
