//! Responses and messages that pass as they are, to a provider that has the endpoint itself (`gateway.models.*.routes`).
//!
//! A request is judged by its translation to a chat completion, so that the same is taken, refused and reserved on every model; what
//! the provider gets is the client's text, in which [`request`] replaces what is governed. Its answer passes byte by byte, too, but for
//! the model's name, while its [`usage`] is read. Streams are read by [`NativeFrames`](super::super::sse::NativeFrames).

mod answer;
mod request;
mod usage;

use std::sync::Arc;

use bytes::Bytes;
use config::models::{Model, ModelRoute};
use http::{HeaderMap, HeaderName, HeaderValue};

pub(in crate::gateway) use self::{
    answer::{NativeAnswer, ending as native_ending, word_bytes as native_word_bytes},
    usage::NativeUsage,
};
use super::{Api, ClientFormat, CompletionRequest};
use crate::gateway::{
    asks::Asks,
    json,
    models::{ServedModel, ServedModels},
    request::Pieces,
};

/// Says what of a request was left out.
const WARNING: HeaderName = HeaderName::from_static("x-svc-warning");

/// The format of an answer that passes as its provider writes it.
pub(in crate::gateway) struct Native {
    api: Api,
    /// The name of the model that was asked for, as JSON.
    model: Box<str>,
    warning: Option<HeaderValue>,
    request_id: String,
    /// The format of an answer of the second provider, where that has chat completions alone.
    translated: ClientFormat,
}

/// A request that a second provider gets in its client's format.
#[derive(Clone)]
pub(in crate::gateway) struct NativeRequest {
    api: Api,
    body: Bytes,
    most_tokens: u64,
}

impl NativeRequest {
    /// Writes the body for a model's provider.
    pub(in crate::gateway) fn write(&self, model: &ServedModel) -> Pieces {
        request::write(self.api, &self.body, model, self.most_tokens).body
    }
}

/// The body of a request as the client has written it, if a provider of its model may get it so: of others it is let go once it is
/// translated.
pub(super) fn own_body(api: Api, body: &Bytes, models: &ServedModels, asks: &Asks) -> Option<Bytes> {
    let name = json::fields(body).map_while(Result::ok).filter(|field| *field.name() == *b"model").last()?;
    let name = json::decoded_string(body.get(name.value)?)?;
    let model = models.find_for(&String::from_utf8_lossy(&name), asks)?.admitted();
    has_route(&model.model, api).then(|| body.clone())
}

/// Has a request, whose translation is `request`, of `chat_bytes`, pass as the client has written it, in `body`, if the model's provider
/// has the endpoint. What is `translated` otherwise is the format of its answer.
pub(super) fn pass(
    api: Api,
    body: Option<Bytes>,
    chat_bytes: usize,
    translated: ClientFormat,
    request: CompletionRequest,
) -> CompletionRequest {
    let is_native = |body: &Bytes| has_route(&request.model.model, api) && !request::brings_tools_along(api, body);
    let Some(body) = body.filter(is_native) else {
        return CompletionRequest { format: translated, ..request };
    };
    let mended = json::without_lone_surrogates(&body).map(Bytes::from);
    let body = &mended.unwrap_or(body);
    let most_tokens = request.max_usage.completion;
    let written = request::write(api, body, &request.model, most_tokens);
    let readable = request.model.model.context.map_or(u64::MAX, u64::from);
    // What the chat completion has beyond its bytes (images, the template, tools) this one has as well.
    let beside = request.max_usage.prompt.saturating_sub(chat_bytes as u64);
    let prompt = body.len() as u64 + beside + written.surplus;
    let mut max_usage = request.max_usage;
    max_usage.prompt = max_usage.prompt.max(prompt.min(readable));
    let fallback = request.fallback.map(|mut fallback| {
        if has_route(&fallback.model.model, api) {
            fallback.set_native(NativeRequest { api, body: body.clone(), most_tokens });
        }
        fallback
    });
    let model = json::fields(body).filter_map(Result::ok).find(|field| *field.name() == *b"model");
    let model = model.and_then(|field| body.get(field.value)).and_then(|name| std::str::from_utf8(name).ok());
    let native = Native {
        api,
        model: model.unwrap_or(&request.model.id_json).into(),
        warning: written.warning,
        request_id: String::new(),
        translated,
    };
    let format = ClientFormat::Native(Box::new(native));
    CompletionRequest { max_usage, body: written.body, fallback, format, ..request }
}

fn has_route(model: &Model, api: Api) -> bool {
    route(api).is_some_and(|route| model.routes.contains(&route))
}

/// The provider's endpoint for a format, if it is one that passes.
fn route(api: Api) -> Option<ModelRoute> {
    match api {
        Api::Responses => Some(ModelRoute::Responses),
        Api::Messages => Some(ModelRoute::Messages),
        Api::Chat | Api::Text | Api::Embeddings => None,
    }
}

impl Native {
    pub(super) fn api(&self) -> Api {
        self.api
    }

    pub(super) fn identify(&mut self, request_id: &str, identify: impl FnOnce(&mut ClientFormat)) {
        request_id.clone_into(&mut self.request_id);
        identify(&mut self.translated);
    }

    /// What reads the answer.
    pub(super) fn answer(&self) -> Arc<NativeAnswer> {
        Arc::new(NativeAnswer::new(self.api, &self.model, &self.request_id))
    }

    /// The path at which a provider is asked that has no such endpoint.
    pub(super) fn translated_route(&self) -> ModelRoute {
        self.translated.route()
    }

    pub(super) fn into_translated(self) -> ClientFormat {
        self.translated
    }

    pub(super) fn add_headers(&self, headers: &mut HeaderMap) {
        if let Some(warning) = &self.warning {
            headers.insert(WARNING, warning.clone());
        }
    }
}

#[cfg(test)]
mod tests;
