//! Certificates: where they come from. Serving them is edge's part, storing them `common::db::certificates`'.
//!
//! [`local_ca`] is for machines without public names: an authority of their own.

pub mod local_ca;
pub mod private_file;
