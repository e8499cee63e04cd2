//! The formats in which clients request completions: `OpenAI`'s chat completions, which providers also speak, and those
//! that are translated to it and back.
//!
//! A translated request becomes the body of a chat completion and passes the same validation, admission and exchange as
//! any other. Its answer is translated last, after metering has read the provider's frames. Chat completions themselves
//! are neither copied nor allocated here. Start with [`CompletionApi::read`] for requests and [`ClientFormat`] for answers. The
//! dialects of the providers are handled elsewhere.

mod answer_frames;
mod chat;
pub mod messages;
mod native;
pub mod responses;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use config::models::ModelRoute;
use domain::Clock;
use gateway_answer::{answer_memory::AnswerMemory, json_answer, sse::StreamError};
use gateway_request::{
    asks::RequestLimits,
    error::ApiError,
    models::{ServedModel, ServedModels},
    request::{self, CompletionRequest},
    request_body::ReadBody,
};
use http::{HeaderMap, Response};

pub use self::{
    answer_frames::AnswerFrames,
    native::{NativeAnswer, NativeFormat, NativeFrames},
};

/// A validated request, with the format of its answer.
pub type FormattedRequest = CompletionRequest<ClientFormat>;

/// An endpoint for completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionApi {
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
    pub fn read(
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
    pub fn body_copies(self) -> u64 {
        match self {
            Self::Chat | Self::Text | Self::Embeddings => 1,
            Self::Responses | Self::Messages => limits::TRANSLATED_BODY_COPIES,
        }
    }

    /// Returns the error format for a request of which only the id is known.
    pub fn errors(self, request_id: &str) -> ErrorFormat {
        match self {
            Self::Chat => ErrorFormat::Chat,
            Self::Text => ErrorFormat::Text,
            Self::Embeddings => ErrorFormat::Embeddings,
            Self::Responses => ErrorFormat::Responses,
            Self::Messages => ErrorFormat::Messages(Box::new(messages::FailedRequest::new(request_id))),
        }
    }
}

/// The format of errors at one endpoint, with what it has to know of the request.
pub enum ErrorFormat {
    /// Errors of chat completions, in `OpenAI`'s envelope.
    Chat,
    /// Errors of legacy completions, which name the field `prompt` instead of `messages`.
    Text,
    /// Errors of embeddings, which name the field `input` instead of `messages`.
    Embeddings,
    /// Errors of Responses, in `OpenAI`'s envelope and with the names of that endpoint's own fields.
    Responses,
    /// Errors of Messages, in Anthropic's envelope with the request's id.
    Messages(Box<messages::FailedRequest>),
}

impl ErrorFormat {
    /// Returns the response that tells the client of `error` in this format.
    pub fn response(&self, error: ApiError) -> Response<Bytes> {
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
pub enum ClientFormat {
    /// Chat completions, which are not translated.
    Chat,
    /// Legacy completions, which are not translated either.
    Text,
    /// Embeddings, as numbers or in base64.
    Embeddings {
        /// Whether to encode them in base64, if the provider has not done so.
        as_base64: bool,
    },
    /// Responses, translated from a chat completion.
    Responses(Box<responses::ResponsesContext>),
    /// Messages, translated from a chat completion.
    Messages(Box<messages::MessagesContext>),
    /// Responses or Messages as written by the provider itself.
    Native(Box<NativeFormat>),
}

impl ClientFormat {
    /// Returns the reader of an answer that passes in its own format.
    pub fn native_answer(&self) -> Option<Arc<NativeAnswer>> {
        match self {
            Self::Native(native) => Some(native.answer()),
            _ => None,
        }
    }

    /// Returns the format to which a chat completion is translated for the client.
    #[must_use]
    pub fn into_translated(self) -> Self {
        match self {
            Self::Native(native) => native.into_translated(),
            format => format,
        }
    }

    /// Returns the endpoint to which the client sent the request.
    pub fn api(&self) -> CompletionApi {
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
    pub fn route(&self) -> ModelRoute {
        match self {
            Self::Chat | Self::Responses(_) | Self::Messages(_) => ModelRoute::Chat,
            Self::Text => ModelRoute::Completions,
            Self::Embeddings { .. } => ModelRoute::Embeddings,
            Self::Native(native) => native.translated_route(),
        }
    }

    /// Returns whether the answer differs from the provider's text, so that both are briefly in memory.
    pub fn is_translated(&self) -> bool {
        match self {
            Self::Chat | Self::Text | Self::Native(_) => false,
            Self::Embeddings { as_base64 } => *as_base64,
            Self::Responses(_) | Self::Messages(_) => true,
        }
    }

    /// Sets the id from which a translated answer's own is derived, and the time of its creation from `clock`.
    pub fn identify(&mut self, request_id: &str, clock: &Clock) {
        match self {
            Self::Chat | Self::Text | Self::Embeddings { .. } => {}
            Self::Responses(context) => context.identify(request_id, clock.now()),
            Self::Messages(context) => context.identify(request_id),
            Self::Native(native) => native.identify(request_id, |format| format.identify(request_id, clock)),
        }
    }

    /// Returns the error format for a request with this id and about `prompt` prompt tokens.
    pub fn errors(&self, request_id: &str, prompt: u64, model: &ServedModel) -> ErrorFormat {
        match self.api() {
            CompletionApi::Messages => {
                let request = messages::FailedRequest::new(request_id).with_prompt(prompt, model.model.context);
                ErrorFormat::Messages(Box::new(request))
            }
            api => api.errors(request_id),
        }
    }

    /// Translates a whole answer. Returns `None` if it is not valid for the provider's route.
    pub fn whole(self, chat: Bytes) -> Option<Bytes> {
        match self {
            Self::Chat | Self::Native(_) | Self::Text | Self::Embeddings { as_base64: false } => Some(chat),
            Self::Embeddings { as_base64: true } => json_answer::encode_base64(&chat).map(Bytes::from),
            Self::Responses(context) => responses::whole(*context, &chat),
            Self::Messages(context) => messages::whole(&context, &chat),
        }
    }

    /// Creates the writer of a streamed answer, which charges the parts that it holds to `memory`. An answer in its own
    /// format is read by `native`.
    pub fn into_events(self, memory: AnswerMemory, native: Option<Arc<NativeAnswer>>) -> EventWriter {
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
    pub fn add_headers(&self, headers: &mut HeaderMap) {
        match self {
            Self::Chat | Self::Text | Self::Embeddings { .. } => {}
            Self::Responses(context) => context.add_headers(headers),
            Self::Messages(context) => context.add_headers(headers),
            Self::Native(native) => native.add_headers(headers),
        }
    }
}

/// Translates the events of a chat completion to the events of another format.
pub trait TranslateEvents {
    /// Translates complete events of a chat completion, as [`ChatFrames`](gateway_answer::sse::ChatFrames) writes them (including the
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
pub enum EventWriter {
    /// Chat and legacy completions, whose frames are not translated.
    Chat,
    /// Events of Responses, translated from those of a chat completion.
    Responses(Box<EventTranslation<responses::ResponseEvents>>),
    /// Events of Messages, translated from those of a chat completion.
    Messages(Box<EventTranslation<messages::MessageEvents>>),
    /// An answer in its own format, which is not translated.
    Native(Arc<NativeAnswer>),
}

impl EventWriter {
    /// Appends to `out`, in the client's format, what `read` appends to its buffer.
    pub fn write<E: From<StreamError>, T>(
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
    pub fn fail(&mut self, error: ApiError, out: &mut BytesMut) -> bool {
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

/// The translation of one stream, which charges the parts that it holds to the memory for answers.
pub struct EventTranslation<E> {
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
