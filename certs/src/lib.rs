//! Certificates and their keys: where they come from. Edges present them; `db::certificates` stores them.
//!
//! [`acme`] speaks with authorities, and [`dns01`] writes the records that they ask for; when they are asked is for
//! admin to say. [`local_ca`] is for machines without public names: an authority of their own. [`chain`] judges what an
//! operator brings along, [`import`] stores it, [`listing`] says what there is. [`rotation`] exchanges the master key
//! that private keys, and all other stored secrets, are sealed with.

pub mod acme;
pub mod chain;
pub mod dns01;
pub mod import;
pub mod listing;
pub mod local_ca;
pub mod private_file;
pub mod rotation;
