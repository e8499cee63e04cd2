//! `/ai`.

use domain::token::TokenSecret;
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
    /// The most tokens that one completion can have.
    pub max_completion_tokens: u64,
}

/// The models of the AI gateway, sorted by id.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AiModelList {
    /// The models.
    pub models: Vec<AiModel>,
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
