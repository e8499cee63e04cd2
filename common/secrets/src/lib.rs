//! The operator's master key, the sealing of rows with it, and the hashing of passwords.
//!
//! The form of tokens and other secrets that are handed out is in `domain`. Start with [`MasterKey`];
//! an edge has an [`EdgeKey`] instead.

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
pub use exposure::Exposure;
pub use master_key::{MasterKey, Purpose};
