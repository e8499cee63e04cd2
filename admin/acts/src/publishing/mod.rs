//! Publishing: from a request's body, or a pushed commit, to a deployment that every edge serves.
//!
//! [`room`] checks for space, [`receive`] writes a body to a file, [`record`] guards the `uploading` record in the
//! meantime, [`go_live`] writes the pack and promotes the deployment; [`share`] does both for a share. Not here: the
//! form of requests and responses (`api/`), and when a push is due (`jobs/pushes`).

pub mod go_live;
pub mod receive;
pub mod record;
pub mod room;
pub mod share;
