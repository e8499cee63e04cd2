//! Probes a custom domain from outside, as its visitors see it.
//!
//! It connects to public addresses only, unless `limits.probe_allow_private` allows others, because the person who
//! attaches a domain chooses its addresses. Not here: the records in DNS ([`crate`]).

pub mod certificate;
pub mod way;
