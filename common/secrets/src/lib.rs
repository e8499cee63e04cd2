//! The operator's master key, sealing of rows, and password hashing.
//!
//! The form of tokens and other secrets for users is in `domain`. Start with [`MasterKey`]; edges have an [`EdgeKey`].

pub mod edge_key;
pub mod edge_proof;
mod exposure;
pub mod letter_links;
pub mod master_key;
pub mod passwords;
mod ring;
pub mod signatures;
pub mod streams;

pub use edge_key::EdgeKey;
pub use exposure::FileExposure;
pub use master_key::{KeyPurpose, MasterKey};
