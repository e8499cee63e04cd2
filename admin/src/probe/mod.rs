//! Looks at a custom domain from outside, as its visitors see it.
//!
//! Connects to addresses that the whole world can reach only, unless `limits.probe_allow_private` allows others:
//! whoever attaches a domain says where it leads. Not here: what stands in DNS, which is [`crate::hostnames`].

pub mod certificate;
pub mod way;
