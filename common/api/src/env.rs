//! `/projects/:name/env`.

use domain::env::{EnvKey, EnvScope, EnvValue};
use serde::{Deserialize, Serialize};

/// An environment variable, in the clear.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnvVar {
    /// Its name.
    pub key: EnvKey,
    /// Its value.
    pub value: EnvValue,
    /// Where it is seen.
    pub scope: EnvScope,
}

/// A project's variables, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnvList {
    /// The variables.
    pub env: Vec<EnvVar>,
}

/// Sets a variable.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetEnv {
    /// At most 32768 characters.
    pub value: EnvValue,
    /// Where it is seen; when absent the stored scope is kept, and a new variable gets `runtime`.
    #[serde(default, deserialize_with = "super::optional_word", skip_serializing_if = "Option::is_none")]
    pub scope: Option<EnvScope>,
}

/// The variable was set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnvChanged {
    /// Always true.
    pub ok: bool,
    /// Its name.
    pub key: EnvKey,
    /// Where it is seen now.
    pub scope: EnvScope,
}
