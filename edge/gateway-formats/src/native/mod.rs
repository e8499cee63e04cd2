//! Responses and Messages in their own format, for a provider that has the endpoint itself (`gateway.models.*.routes`).
//!
//! A request is validated through its translation to a chat completion, so that every model accepts, refuses and
//! reserves the same. The provider gets the client's own text, in which [`request`] replaces the governed fields. The
//! answer also passes byte for byte, except for the model's name, while its [`usage`] is read; streams by
//! [`NativeFrames`].

mod answer;
mod frames;
mod request;
mod usage;

use std::sync::Arc;

use bytes::Bytes;
use config::models::{Model, ModelRoute};
use gateway_request::{
    asks::RequestLimits,
    models::{ServedModel, ServedModels},
    request::{CompletionRequest, WriteRequest},
};
use http::{HeaderMap, HeaderName, HeaderValue};
use openai::json;
use upstream::BodyPieces;

use self::usage::NativeUsage;
pub use self::{answer::NativeAnswer, frames::NativeFrames};
use super::{ClientFormat, CompletionApi, FormattedRequest};

/// The header that lists what was left out of a request.
const WARNING: HeaderName = HeaderName::from_static("x-svc-warning");

/// The format of an answer that passes as written by its provider.
pub struct NativeFormat {
    api: CompletionApi,
    /// The requested model's name as JSON.
    model: Box<str>,
    warning: Option<HeaderValue>,
    request_id: String,
    /// The answer format if the second provider only has chat completions.
    translated: ClientFormat,
}

/// A request to a second provider in the client's own format.
struct NativeRequest {
    api: CompletionApi,
    body: Bytes,
    most_tokens: u64,
}

impl WriteRequest for NativeRequest {
    fn write(&self, model: &ServedModel) -> BodyPieces {
        request::write(self.api, &self.body, model, self.most_tokens).body
    }
}

/// Returns the client's body if a provider of its model can get it in its own format. Others are dropped after
/// translation.
pub(super) fn native_body(
    api: CompletionApi,
    body: &Bytes,
    models: &ServedModels,
    asks: &RequestLimits,
) -> Option<Bytes> {
    let name = json::fields(body).map_while(Result::ok).filter(|field| *field.name() == *b"model").last()?;
    let name = json::decode_string(body.get(name.value)?)?;
    let model = models.find_for(&String::from_utf8_lossy(&name), asks)?.with_access();
    has_route(&model.model, api).then(|| body.clone())
}

/// Makes a request pass in the client's own format, as `body`, if the model's provider has the endpoint. `request` is
/// its translation, of `chat_bytes`, and `translated` the answer's format otherwise.
pub(super) fn pass_native(
    api: CompletionApi,
    body: Option<Bytes>,
    chat_bytes: usize,
    translated: ClientFormat,
    request: CompletionRequest,
) -> FormattedRequest {
    let is_native = |body: &Bytes| {
        let has_few_fields = json::fields(body).nth(limits::REQUEST_FIELDS).is_none();
        has_few_fields && has_route(&request.model.model, api) && !request::has_inline_tools(api, body)
    };
    let Some(body) = body.filter(is_native) else {
        return request.with_format(translated);
    };
    let mended = json::replace_lone_surrogates(&body).map(Bytes::from);
    let body = &mended.unwrap_or(body);
    let most_tokens = request.max_usage.completion;
    let written = request::write(api, body, &request.model, most_tokens);
    let readable = request.model.model.context.map_or(u64::MAX, u64::from);
    // The chat completion's tokens beyond its bytes (images, the template, tools) apply here as well.
    let beside = request.max_usage.prompt.saturating_sub(chat_bytes as u64);
    let prompt = body.len() as u64 + beside + written.surplus;
    let mut max_usage = request.max_usage;
    max_usage.prompt = max_usage.prompt.max(prompt.min(readable));
    let fallback = request.fallback.map(|mut fallback| {
        if has_route(&fallback.model.model, api) {
            fallback.set_native(Box::new(NativeRequest { api, body: body.clone(), most_tokens }));
        }
        fallback
    });
    let model = json::fields(body).filter_map(Result::ok).find(|field| *field.name() == *b"model");
    let model = model.and_then(|field| body.get(field.value)).and_then(|name| std::str::from_utf8(name).ok());
    let native = NativeFormat {
        api,
        model: model.unwrap_or(&request.model.id_json).into(),
        warning: written.warning,
        request_id: String::new(),
        translated,
    };
    let format = ClientFormat::Native(Box::new(native));
    CompletionRequest { max_usage, body: written.body, fallback, ..request }.with_format(format)
}

fn has_route(model: &Model, api: CompletionApi) -> bool {
    route(api).is_some_and(|route| model.routes.contains(&route))
}

/// Returns the provider's route for a format that can pass natively.
fn route(api: CompletionApi) -> Option<ModelRoute> {
    match api {
        CompletionApi::Responses => Some(ModelRoute::Responses),
        CompletionApi::Messages => Some(ModelRoute::Messages),
        CompletionApi::Chat | CompletionApi::Text | CompletionApi::Embeddings => None,
    }
}

impl NativeFormat {
    pub(super) fn api(&self) -> CompletionApi {
        self.api
    }

    pub(super) fn identify(&mut self, request_id: &str, identify: impl FnOnce(&mut ClientFormat)) {
        request_id.clone_into(&mut self.request_id);
        identify(&mut self.translated);
    }

    pub(super) fn answer(&self) -> Arc<NativeAnswer> {
        Arc::new(NativeAnswer::new(self.api, &self.model, &self.request_id))
    }

    /// Returns the route for a provider without this endpoint.
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
