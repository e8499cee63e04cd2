//! The gateway's paths, and the endpoints at which a model is served.

use config::models::{Model, ModelRoute};

/// The path of chat completions, in `OpenAI`'s format.
pub const CHAT_COMPLETIONS: &str = "/v1/chat/completions";
/// The path of legacy completions, which continue a prompt or fill a gap in it.
pub const COMPLETIONS: &str = "/v1/completions";
/// The path of embeddings, in `OpenAI`'s format.
pub const EMBEDDINGS: &str = "/v1/embeddings";
/// The path of completions in the format of `OpenAI`'s Responses API.
pub const RESPONSES: &str = "/v1/responses";
/// The path of completions in the format of Anthropic's Messages API.
pub const MESSAGES: &str = "/v1/messages";
/// The path that returns an upper bound of the prompt tokens of a request in Anthropic's format.
pub const COUNT_TOKENS: &str = "/v1/messages/count_tokens";
/// The path of the list of models. One model is described below it, at its id.
pub const MODELS: &str = "/v1/models";
/// The path of the document that describes the gateway's API.
pub const OPENAPI: &str = "/v1/openapi.json";

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
