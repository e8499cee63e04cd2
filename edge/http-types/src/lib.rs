//! HTTP types that all modules share: bodies, our own pages, visitors, and reserved names and paths.
//!
//! The crates above dispatch requests and read the store. Start with [`Visit`] and [`SiteBody`].

mod body;
mod chunk;
pub mod clients;
pub mod drain;
mod fault;
mod incident;
mod negotiate;
mod pacing;
pub mod pages;
pub mod pinned;
mod request_id;
pub mod reserved;
mod visit;
mod visitor;

use http::HeaderValue;

pub use self::{
    body::{BodyError, CacheUse, ServedKind, SiteBody},
    visit::{GateAnswer, Visit},
};
pub use self::{
    body::{BodyOrigin, BodySource, charged_bytes, copy_if_small},
    chunk::{ChargedChunk, TakenBytes, charged_head},
    drain::drain,
    fault::HttpFault,
    incident::IncidentLog,
    negotiate::{AcceptedCodings, accepts_anything, accepts_html, quality},
    pacing::AccountPaces,
    pinned::pinned,
    request_id::{RequestIds, X_REQUEST_ID},
    visitor::{FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO, Visitor},
};

/// The value of the `Server` header in the edge's responses.
pub const SERVER: HeaderValue = HeaderValue::from_static(domain::BRAND);
