//! Wire types of every request and response of the control plane, one file per noun.
//!
//! They are shared by admin, which serves them, and the client, which reads them; the feature `openapi` derives the
//! OpenAPI document from them. They have no behaviour, and their fields' types are in `domain`. Start with the noun of
//! the URL.

pub mod access;
pub mod account;
pub mod ai;
pub mod audit;
pub mod billing;
pub mod deployments;
pub mod device;
pub mod domains;
pub mod env;
pub mod error;
pub mod events;
pub mod invites;
pub mod notifications;
pub mod orgs;
pub mod projects;
pub mod repo;
pub mod sessions;
pub mod shares;
pub mod stats;
pub mod suspensions;
pub mod tokens;
pub mod usage;
pub mod vcs;
pub mod webhooks;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, IntoDeserializer as _},
};

/// The response when something was deleted, detached, revoked or removed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Done {
    /// Always `true`.
    pub ok: bool,
}

impl Done {
    /// `{"ok": true}`.
    pub const OK: Self = Self { ok: true };
}

/// The `?limit=` and `?cursor=` of a paged list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct Page {
    /// The number of rows to return: 1 to 100; 100 when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u8>, minimum = 1, maximum = 100))]
    pub limit: Option<String>,
    /// The `next_cursor` of the previous page; absent for the first page.
    pub cursor: Option<String>,
}

/// Reads a field that may be null but not absent.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

/// Reads a unit variant's name, or null.
fn optional_word<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    let word = Option::<String>::deserialize(deserializer)?;
    word.map(|word| T::deserialize(word.into_deserializer())).transpose()
}

/// Reads a unit variant's name. Serde by itself also accepts `{"word": null}`, and calls other types invalid JSON.
fn word<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(String::deserialize(deserializer)?.into_deserializer())
}
