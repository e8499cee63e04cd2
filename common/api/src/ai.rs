//! `/ai`.

use domain::{gateway::ModelAliases, token::TokenSecret};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A model of the AI gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiModel {
    /// The model's id, for the `model` field of a request.
    pub id: String,
    /// The company that serves the model.
    pub owned_by: String,
    /// The price of a million input tokens, in euro cents.
    pub input_cents_per_million: u32,
    /// The price of a million output tokens, in euro cents.
    pub output_cents_per_million: u32,
    /// The maximum number of tokens in a prompt; null if unknown.
    pub context_tokens: Option<u32>,
    /// The maximum number of tokens in one completion, given your plan and the model.
    pub max_completion_tokens: u64,
    /// Whether an edge can reach the model, that is, has a key for one of its providers. Null if no edge has reported.
    #[serde(default)]
    pub available: Option<bool>,
}

/// The models of the AI gateway, sorted by id.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiModelList {
    /// The models.
    pub models: Vec<AiModel>,
}

/// The aliases that an account has defined for models of the AI gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelAliasList {
    /// The aliases, with their models.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<NamedModel>))]
    pub aliases: ModelAliases,
}

/// The request to set an account's aliases for models of the AI gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetModelAliases {
    /// The aliases, with their models; an empty list removes the existing ones.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<NamedModel>, max_items = 16))]
    pub aliases: ModelAliases,
}

/// An alias for a model of the AI gateway.
#[cfg(feature = "openapi")]
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "the shape of `domain::gateway::ModelAlias` in the document")]
pub struct NamedModel {
    /// The name that clients request: printable ASCII, not the id of a model. A trailing `*` matches any suffix.
    #[schema(min_length = 1, max_length = 100, pattern = "^[!-)+-~]*[!-~]$", example = "claude-*")]
    name: String,
    /// The id of the model, as listed by `GET /ai/models`.
    #[schema(min_length = 1, max_length = 100, pattern = "^[!-~]+$", example = "svc/qwen3-coder-30b")]
    model: String,
}

/// A completion to try out.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TryCompletion {
    /// The key to use with the gateway: a token of kind `ai`, whose account pays. It is forwarded and not stored.
    pub key: TokenSecret,
    /// The body of the gateway's `POST /v1/chat/completions`.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub request: Map<String, Value>,
}
