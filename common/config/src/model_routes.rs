//! `gateway.models.*.routes`: the paths that a model's provider has for it.

use serde::{Deserialize, Serialize};

/// A path of a model's provider, by the endpoint of `OpenAI`'s or Anthropic's that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelRoute {
    /// `chat/completions`. Requests for responses and messages are translated to it.
    Chat,
    /// `responses`.
    Responses,
    /// `messages`.
    Messages,
    /// `embeddings`.
    Embeddings,
    /// `completions`, the legacy endpoint, by which models for code fill in the middle.
    Completions,
}

impl ModelRoute {
    /// The routes of a model whose entry names none.
    pub fn default_routes() -> Vec<Self> {
        vec![Self::Chat]
    }
}
