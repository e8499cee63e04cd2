//! Deployment packs: what an upload becomes and what an edge serves.
//!
//! A pack is two immutable objects under `deployments/<dep id>/`: `data`, every distinct file body and its compressed
//! variants one after another, and `manifest`, which says what lies where. [`archive`] reads and judges the uploaded
//! tarball, [`writer`] makes the pack, [`reader`] gives it back, [`objects`] is the folder or bucket underneath.
//! Start with [`manifest`].

pub mod manifest;

pub use manifest::{Encoding, FileEntry, Manifest, Span};
