//! Extractors for what a request carries: their rejections are the API's own errors.
//!
//! [`Json`] bodies, [`Path`] parameters, [`Query`] parameters, [`Paged`] lists. Who is asking is in [`crate::auth`].

mod json;
mod page;
mod path;
mod query;

pub use json::{BODY_ERRORS, Json, read_body, read_body_up_to};
pub use page::Paged;
pub use path::{PATH_ERRORS, Path};
pub use query::{QUERY_ERRORS, Query};
