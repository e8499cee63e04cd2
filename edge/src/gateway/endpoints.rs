//! The gateway's paths, and the endpoints at which a model is served.

use config::models::{Model, ModelRoute};

pub(super) const CHAT_COMPLETIONS: &str = "/v1/chat/completions";
pub(super) const COMPLETIONS: &str = "/v1/completions";
pub(super) const EMBEDDINGS: &str = "/v1/embeddings";
pub(super) const RESPONSES: &str = "/v1/responses";
pub(super) const MESSAGES: &str = "/v1/messages";
pub(super) const COUNT_TOKENS: &str = "/v1/messages/count_tokens";
pub(super) const MODELS: &str = "/v1/models";
pub(super) const OPENAPI: &str = "/v1/openapi.json";

/// Returns the endpoints of a model. Responses and messages are translated to chat completions.
pub(super) fn for_model(model: &Model) -> Vec<&'static str> {
    let is_chat = model.has_route(ModelRoute::Chat);
    let has = |route| model.has_route(route);
    [
        (CHAT_COMPLETIONS, is_chat),
        (RESPONSES, is_chat || has(ModelRoute::Responses)),
        (MESSAGES, is_chat || has(ModelRoute::Messages)),
        (COMPLETIONS, has(ModelRoute::Completions)),
        (EMBEDDINGS, has(ModelRoute::Embeddings)),
    ]
    .into_iter()
    .filter(|(_, has)| *has)
    .map(|(path, _)| path)
    .collect()
}
