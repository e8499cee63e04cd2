//! Wire types of every request and answer of the control plane, one file per noun.
//!
//! admin serves them, the client reads them, the OpenAPI document is made from them by the feature `openapi`. There is no
//! behaviour here; the types of their fields are in `domain`. Start with the noun of the URL.

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

/// The answer when something was deleted, detached, revoked or removed.
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

/// `?limit=` and `?cursor=` of a paged list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct Page {
    /// The number of rows wanted: 1 to 100, 100 when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u8>, minimum = 1, maximum = 100))]
    pub limit: Option<String>,
    /// The `next_cursor` of the page before; absent for the first page.
    pub cursor: Option<String>,
}

/// Reads what may be null but not absent.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

/// Reads one of an enum's words, or null.
fn optional_word<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    let word = Option::<String>::deserialize(deserializer)?;
    word.map(|word| T::deserialize(word.into_deserializer())).transpose()
}

/// Reads one of an enum's words. Serde by itself would also take `{"word": null}`, and call other types no JSON.
fn word<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(String::deserialize(deserializer)?.into_deserializer())
}
