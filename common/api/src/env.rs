//! `/projects/:name/env`.

use domain::env::{EnvKey, EnvScope, EnvValue};
use serde::{Deserialize, Serialize};

/// An environment variable with its value.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnvVar {
    /// The variable's name.
    pub key: EnvKey,
    /// The variable's value.
    pub value: EnvValue,
    /// Where the variable is visible.
    pub scope: EnvScope,
}

/// A project's environment variables, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnvList {
    /// The variables.
    pub env: Vec<EnvVar>,
}

/// The request to set an environment variable.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetEnv {
    /// The variable's value: at most 32768 characters.
    pub value: EnvValue,
    /// Where the variable is visible; when absent, the stored scope is kept, and a new variable gets `runtime`.
    #[serde(default, deserialize_with = "super::optional_word", skip_serializing_if = "Option::is_none")]
    pub scope: Option<EnvScope>,
}

/// The response when an environment variable was set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnvChanged {
    /// Always `true`.
    pub ok: bool,
    /// The variable's name.
    pub key: EnvKey,
    /// The variable's scope now.
    pub scope: EnvScope,
}
