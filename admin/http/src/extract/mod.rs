//! Extractors for the parts of a request, whose rejections are API errors: [`Json`] bodies, [`Path`] parameters,
//! [`Query`] parameters, [`PageQuery`] lists. Extractors that prove the caller's identity are in `app::auth`.

mod json;
mod page;
mod path;
mod query;

pub use json::{BODY_ERRORS, BODY_TIMEOUT, Json, late_body, read_body, read_body_up_to};
pub use page::{PageQuery, invalid_cursor};
pub use path::{PATH_ERRORS, Path};
pub use query::{QUERY_ERRORS, Query};
