//! Publishing: from a request's body, or a pushed commit, to a deployment that every edge serves.
//!
//! [`room`] looks whether there is any, [`receive`] writes a body to a file, [`record`] guards the record `uploading` meanwhile, [`go_live`] writes the pack and
//! promotes the deployment;
//! [`share`] does both for a share. Not here: what a request and its answer look like (`api/`), when a push is due (`jobs/pushes`).

pub(crate) mod go_live;
pub mod receive;
pub(crate) mod record;
pub(crate) mod room;
pub(crate) mod share;
