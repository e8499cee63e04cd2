//! Certificates and their keys, from their creation to storage. Edges present them; `db::certificates` stores them.
//!
//! [`acme`] communicates with authorities, and [`dns01`] writes the records that they require; admin decides when.
//! [`local_ca`] is an authority for machines without public names. [`chain`] validates what an operator provides,
//! [`import`] stores it, and [`listing`] lists what is stored. [`rotation`] exchanges the master key that seals private
//! keys and all other stored secrets.

pub mod acme;
pub mod chain;
pub mod dns01;
pub mod import;
pub mod listing;
pub mod local_ca;
pub mod private_file;
pub mod rotation;
