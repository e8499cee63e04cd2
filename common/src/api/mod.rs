//! Wire types of every request and answer of the control plane, one file per noun.
//!
//! admin serves them, the client reads them, the OpenAPI document is made from them. No behaviour here.

pub mod access;
pub mod account;
pub mod deployments;
pub mod device;
pub mod domains;
pub mod error;
pub mod projects;
pub mod shares;
pub mod tokens;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The answer of every detach, revoke and remove.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// Always true.
    pub ok: bool,
}

impl Done {
    /// `{"ok": true}`.
    pub const OK: Self = Self { ok: true };
}

/// `?limit=` and `?cursor=` of a paged list.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// Rows wanted, 1 to 100; 100 when absent.
    pub limit: Option<u8>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}
