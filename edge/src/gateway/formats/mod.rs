//! The formats in which clients request completions: `OpenAI`'s chat completions, which providers also speak, and those
//! that are translated to it and back.
//!
//! A translated request becomes the body of a chat completion and passes the same validation, admission and exchange as
//! any other. Its answer is translated last, after metering has read the provider's frames. Chat completions themselves
//! are neither copied nor allocated here. Start with [`CompletionApi::read`] for requests and [`ClientFormat`] for answers. The
//! dialects of the providers are handled elsewhere.

mod answer_frames;
mod chat;
pub(super) mod messages;
mod native;
pub(super) mod responses;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use config::models::ModelRoute;
use domain::Clock;
use http::{HeaderMap, Response};

pub(super) use self::{
    answer_frames::AnswerFrames,
    native::{NativeAnswer, NativeFormat, NativeFrames},
};
use super::{
    answer_memory::AnswerMemory,
    asks::RequestLimits,
    error::ApiError,
    json_answer,
    models::{ServedModel, ServedModels},
    request::{self, CompletionRequest},
    request_body::ReadBody,
    sse::StreamError,
};
use crate::limits;

/// A validated request, with the format of its answer.
pub(super) type FormattedRequest = CompletionRequest<ClientFormat>;

/// An endpoint for completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompletionApi {
    /// `POST /v1/chat/completions`.
    Chat,
    /// `POST /v1/responses`.
    Responses,
    /// `POST /v1/messages`, and its token count.
    Messages,
    /// `POST /v1/completions`.
    Text,
    /// `POST /v1/embeddings`.
    Embeddings,
}

impl CompletionApi {
    /// Validates the body of a request in the endpoint's format, and writes the provider's body.
    pub(super) fn read(
        self,
        body: ReadBody,
        models: &ServedModels,
        asks: &RequestLimits,
    ) -> Result<FormattedRequest, ApiError> {
        match self {
            Self::Chat => Ok(request::validate_chat(body, models, asks, &[])?.with_format(ClientFormat::Chat)),
            Self::Text => Ok(request::validate_text(body, models, asks)?.with_format(ClientFormat::Text)),
            Self::Embeddings => {
                let request = request::validate_embeddings(body, models, asks)?;
                let format = ClientFormat::Embeddings { as_base64: request.format.as_base64 };
                Ok(request.with_format(format))
            }
            Self::Responses => {
                let (chat, context) = responses::to_chat(&body.bytes)?;
                let own = native::native_body(self, &body.bytes, models, asks);
                let chat_bytes = chat.len();
                let request = request::validate_chat(body.translated_to(chat)?, models, asks, responses::HINTS)
                    .map_err(|error| error.rename_param(|param| context.request_param(param)))?;
                let format = ClientFormat::Responses(Box::new(context));
                Ok(native::pass_native(self, own, chat_bytes, format, request))
            }
            Self::Messages => {
                let (chat, context) = messages::to_chat(&body.bytes)?;
                let own = native::native_body(self, &body.bytes, models, asks);
                let chat_bytes = chat.len();
                let request = request::validate_chat(body.translated_to(chat)?, models, asks, messages::HINTS)
                    .map_err(|error| context.rewrite_error(error))?;
                let format = ClientFormat::Messages(Box::new(context));
                Ok(native::pass_native(self, own, chat_bytes, format, request))
            }
        }
    }

    /// Returns how many times its bytes reading a body takes in memory.
    pub(super) fn body_copies(self) -> u64 {
        match self {
            Self::Chat | Self::Text | Self::Embeddings => 1,
            Self::Responses | Self::Messages => limits::TRANSLATED_BODY_COPIES,
        }
    }

    /// Returns the error format for a request of which only the id is known.
    pub(super) fn errors(self, request_id: &str) -> ErrorFormat {
        match self {
            Self::Chat => ErrorFormat::Chat,
            Self::Text => ErrorFormat::Text,
            Self::Embeddings => ErrorFormat::Embeddings,
            Self::Responses => ErrorFormat::Responses,
            Self::Messages => ErrorFormat::Messages(Box::new(messages::FailedRequest::new(request_id))),
        }
    }
}

pub(super) enum ErrorFormat {
    Chat,
    Text,
    Embeddings,
    Responses,
    Messages(Box<messages::FailedRequest>),
}

impl ErrorFormat {
    pub(super) fn response(&self, error: ApiError) -> Response<Bytes> {
        match self {
            Self::Chat => error.into_response(),
            Self::Text => error.rename_param(error_about("prompt")).into_response(),
            Self::Embeddings => error.rename_param(error_about("input")).into_response(),
            Self::Responses => responses::error(error),
            Self::Messages(request) => request.error(error),
        }
    }
}

/// Renames the field `messages` in errors to the endpoint's own input field.
fn error_about(name: &'static str) -> impl FnOnce(&str) -> Option<String> {
    move |param| (param == "messages").then(|| name.to_owned())
}

/// The format of one answer, with the request's context that a translation needs.
pub(super) enum ClientFormat {
    /// Chat completions, which are not translated.
    Chat,
    Text,
    Embeddings {
        /// Whether to encode them in base64, if the provider has not done so.
        as_base64: bool,
    },
    Responses(Box<responses::ResponsesContext>),
    Messages(Box<messages::MessagesContext>),
    /// Responses or Messages as written by the provider itself.
    Native(Box<NativeFormat>),
}

impl ClientFormat {
    /// Returns the reader of an answer that passes in its own format.
    pub(super) fn native_answer(&self) -> Option<Arc<NativeAnswer>> {
        match self {
            Self::Native(native) => Some(native.answer()),
            _ => None,
        }
    }

    /// Returns the format to which a chat completion is translated for the client.
    pub(super) fn into_translated(self) -> Self {
        match self {
            Self::Native(native) => native.into_translated(),
            format => format,
        }
    }

    pub(super) fn api(&self) -> CompletionApi {
        match self {
            Self::Chat => CompletionApi::Chat,
            Self::Text => CompletionApi::Text,
            Self::Embeddings { .. } => CompletionApi::Embeddings,
            Self::Responses(_) => CompletionApi::Responses,
            Self::Messages(_) => CompletionApi::Messages,
            Self::Native(native) => native.api(),
        }
    }

    /// Returns the provider's route if the request is not in the client's own format.
    pub(super) fn route(&self) -> ModelRoute {
        match self {
            Self::Chat | Self::Responses(_) | Self::Messages(_) => ModelRoute::Chat,
            Self::Text => ModelRoute::Completions,
            Self::Embeddings { .. } => ModelRoute::Embeddings,
            Self::Native(native) => native.translated_route(),
        }
    }

    /// Returns whether the answer differs from the provider's text, so that both are briefly in memory.
    pub(super) fn is_translated(&self) -> bool {
        match self {
            Self::Chat | Self::Text | Self::Native(_) => false,
            Self::Embeddings { as_base64 } => *as_base64,
            Self::Responses(_) | Self::Messages(_) => true,
        }
    }

    pub(super) fn identify(&mut self, request_id: &str, clock: &Clock) {
        match self {
            Self::Chat | Self::Text | Self::Embeddings { .. } => {}
            Self::Responses(context) => context.identify(request_id, clock.now()),
            Self::Messages(context) => context.identify(request_id),
            Self::Native(native) => native.identify(request_id, |format| format.identify(request_id, clock)),
        }
    }

    /// Returns the error format for a request with this id and about `prompt` prompt tokens.
    pub(super) fn errors(&self, request_id: &str, prompt: u64, model: &ServedModel) -> ErrorFormat {
        match self.api() {
            CompletionApi::Messages => {
                let request = messages::FailedRequest::new(request_id).with_prompt(prompt, model.model.context);
                ErrorFormat::Messages(Box::new(request))
            }
            api => api.errors(request_id),
        }
    }

    /// Translates a whole answer. Returns `None` if it is not valid for the provider's route.
    pub(super) fn whole(self, chat: Bytes) -> Option<Bytes> {
        match self {
            Self::Chat | Self::Native(_) | Self::Text | Self::Embeddings { as_base64: false } => Some(chat),
            Self::Embeddings { as_base64: true } => json_answer::encode_base64(&chat).map(Bytes::from),
            Self::Responses(context) => responses::whole(*context, &chat),
            Self::Messages(context) => messages::whole(&context, &chat),
        }
    }

    /// Creates the writer of a streamed answer, which charges the parts that it holds to `memory`. An answer in its own
    /// format is read by `native`.
    pub(super) fn into_events(self, memory: AnswerMemory, native: Option<Arc<NativeAnswer>>) -> EventWriter {
        if let Some(native) = native {
            return EventWriter::Native(native);
        }
        match self.into_translated() {
            Self::Chat | Self::Text | Self::Embeddings { .. } | Self::Native(_) => EventWriter::Chat,
            Self::Responses(context) => EventWriter::Responses(Box::new(EventTranslation::new(
                responses::ResponseEvents::new(*context),
                memory,
            ))),
            Self::Messages(context) => {
                EventWriter::Messages(Box::new(EventTranslation::new(messages::MessageEvents::new(*context), memory)))
            }
        }
    }

    /// Adds the response headers specific to the format.
    pub(super) fn add_headers(&self, headers: &mut HeaderMap) {
        match self {
            Self::Chat | Self::Text | Self::Embeddings { .. } => {}
            Self::Responses(context) => context.add_headers(headers),
            Self::Messages(context) => context.add_headers(headers),
            Self::Native(native) => native.add_headers(headers),
        }
    }
}

pub(super) trait TranslateEvents {
    /// Translates complete events of a chat completion, as [`ChatFrames`](super::sse::ChatFrames) writes them (including the
    /// usage frame and `[DONE]`), and appends the result to `out`.
    fn push(&mut self, chat: &[u8], out: &mut BytesMut) -> Result<(), StreamError>;

    /// Appends the end of a failed stream.
    fn fail(&mut self, error: ApiError, out: &mut BytesMut);

    /// Returns the bytes held to be repeated at the end of the stream.
    fn held(&self) -> usize {
        0
    }
}

/// Writes a streamed answer in the client's format.
pub(super) enum EventWriter {
    /// Chat and legacy completions, whose frames are not translated.
    Chat,
    Responses(Box<EventTranslation<responses::ResponseEvents>>),
    Messages(Box<EventTranslation<messages::MessageEvents>>),
    /// An answer in its own format, which is not translated.
    Native(Arc<NativeAnswer>),
}

impl EventWriter {
    /// Appends to `out`, in the client's format, what `read` appends to its buffer.
    pub(super) fn write<E: From<StreamError>, T>(
        &mut self,
        out: &mut BytesMut,
        read: impl FnOnce(&mut BytesMut) -> Result<T, E>,
    ) -> Result<T, E> {
        match self {
            Self::Chat | Self::Native(_) => read(out),
            Self::Responses(translated) => translated.write(out, read),
            Self::Messages(translated) => translated.write(out, read),
        }
    }

    /// Appends the end of a failed stream. Returns false if the format cannot express it: then abort the connection.
    pub(super) fn fail(&mut self, error: ApiError, out: &mut BytesMut) -> bool {
        match self {
            Self::Chat => {
                for part in ["data: ", error.to_json().as_str(), "\n\n"] {
                    out.extend_from_slice(part.as_bytes());
                }
                return false;
            }
            Self::Responses(translated) => translated.events.fail(error, out),
            Self::Messages(translated) => translated.events.fail(error, out),
            Self::Native(answer) => answer.fail(error, out),
        }
        true
    }
}

pub(super) struct EventTranslation<E> {
    events: E,
    chat: BytesMut,
    memory: AnswerMemory,
}

impl<E: TranslateEvents> EventTranslation<E> {
    fn new(events: E, memory: AnswerMemory) -> Self {
        Self { events, chat: BytesMut::new(), memory }
    }

    fn write<F: From<StreamError>, T>(
        &mut self,
        out: &mut BytesMut,
        read: impl FnOnce(&mut BytesMut) -> Result<T, F>,
    ) -> Result<T, F> {
        let result = read(&mut self.chat);
        // Includes the events before an error.
        let translated = self.events.push(&self.chat, out);
        self.chat.clear();
        let value = result?;
        translated?;
        // Grows in steps, not with every word.
        let held = self.events.held().next_multiple_of(limits::USUAL_ANSWER_BYTES);
        self.memory.grow_to(held).map_err(|_| StreamError::NoMemory)?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests;
