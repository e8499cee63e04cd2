//! Detection of files that may be cached forever: those whose name carries a hash of their content.
//!
//! The letters of a name prove nothing: `cafe2024.jpg` is a photograph. Two conditions are required. The site itself
//! refers to the name ([`references`]); and the hash is genuine ([`decision`]), because it has the form that a known
//! generator writes ([`names`], [`words`]) or is the beginning of a well-known hash of the content ([`content`]).
//! Documents and downloads never qualify. Errors differ in cost: a missed hash costs a revalidation, a word mistaken
//! for a hash keeps an old file in browsers for a year. Uncertain names are therefore not fingerprints.

mod content;
mod decision;
#[cfg(test)]
mod fixtures;
mod names;
mod references;
mod words;

pub(super) use content::ContentVerifier;
pub(super) use decision::{FingerprintFinder, SiteFile};
