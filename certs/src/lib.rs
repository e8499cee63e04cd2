//! Certificates and their keys: where they come from. Edges present them; `db::certificates` stores them.
//!
//! [`local_ca`] is for machines without public names: an authority of their own. [`chain`] judges what an operator
//! brings
//! along, [`import`] stores it, [`listing`] says what there is. [`rotation`] exchanges the master key
//! that private keys, and all other stored secrets, are sealed with.

pub mod chain;
pub mod import;
pub mod listing;
pub mod local_ca;
pub mod private_file;
pub mod rotation;
