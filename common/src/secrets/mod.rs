//! Secrets: how tokens are made and hashed, how rows are sealed, how passwords are hashed.
//!
//! No secret type here prints itself. Start with [`tokens`].

pub mod master_key;
pub mod opaque;
pub mod passwords;
pub mod tokens;

pub use master_key::{MasterKey, Purpose};
pub use opaque::OpaqueSecret;
