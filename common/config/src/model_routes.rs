//! `gateway.models.*.routes`: the endpoints that a provider offers for a model.

use serde::{Deserialize, Serialize};

/// An endpoint of a model's provider, named after the endpoint of `OpenAI` or Anthropic that it implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelRoute {
    /// `chat/completions`. Requests for responses and messages can be translated to it.
    Chat,
    /// `responses`.
    Responses,
    /// `messages`.
    Messages,
    /// `embeddings`.
    Embeddings,
    /// `completions`, the legacy endpoint, which code models use to fill in the middle.
    Completions,
}

impl ModelRoute {
    /// Returns the routes of a model whose entry names none.
    pub fn default_routes() -> Vec<Self> {
        vec![Self::Chat]
    }
}
