//! `/ai`.

use domain::{gateway::ModelAliases, token::TokenSecret};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A model of the AI gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiModel {
    /// The id, as `model` of a request.
    pub id: String,
    /// The company that serves the model.
    pub owned_by: String,
    /// The price of a million tokens read, in euro cents.
    pub input_cents_per_million: u32,
    /// The price of a million tokens written, in euro cents.
    pub output_cents_per_million: u32,
    /// The most tokens that a prompt can have; null when that is not known.
    pub context_tokens: Option<u32>,
    /// The most tokens that one completion can have, by your plan and by the model.
    pub max_completion_tokens: u64,
    /// Whether an edge reaches the model: it has a key for one of its providers. Null when no edge has said so.
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

/// The names that an account has given to models of the AI gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelAliasList {
    /// The names, with their models.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<NamedModel>))]
    pub aliases: ModelAliases,
}

/// The request to give names to models of the AI gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetModelAliases {
    /// The names, with their models; none removes those that there are.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<NamedModel>, max_items = 16))]
    pub aliases: ModelAliases,
}

/// A name that is given to a model of the AI gateway.
#[cfg(feature = "openapi")]
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "the shape of `domain::gateway::ModelAlias` in the document")]
pub struct NamedModel {
    /// What clients ask for: printable characters of ASCII, no id of a model. A `*` at the end stands for any rest.
    #[schema(min_length = 1, max_length = 100, pattern = "^[!-)+-~]*[!-~]$", example = "claude-*")]
    name: String,
    /// The id of the model, as `GET /ai/models` has it.
    #[schema(min_length = 1, max_length = 100, pattern = "^[!-~]+$", example = "svc/qwen3-coder-30b")]
    model: String,
}

/// A completion to try out.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TryCompletion {
    /// The key that the gateway is shown, and whose account pays: a token of kind `ai`. It is handed on and not kept.
    pub key: TokenSecret,
    /// The body of the gateway's `POST /v1/chat/completions`.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub request: Map<String, Value>,
}
