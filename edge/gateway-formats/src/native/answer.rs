//! An answer in its own format: how its usage is read, and how it fails.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use bytes::BytesMut;
use domain::usage::Ending;
use gateway_answer::json_answer::{AnswerError, RewrittenAnswer};
use gateway_request::error::ApiError;
use openai::{json, usage::TokenUsage, usage_report::ExpectedUsage};
use serde_json::json;

use super::{
    super::{CompletionApi, messages, responses},
    NativeUsage, route,
};

/// Fields of answers whose strings are not the model's words.
const NO_WORDS: [&[u8]; 12] = [
    b"call_id",
    b"encrypted_content",
    b"id",
    b"item_id",
    b"name",
    b"obfuscation",
    b"role",
    b"signature",
    b"status",
    b"stop_reason",
    b"tool_use_id",
    b"type",
];

/// The answer to one request that passes in the provider's own format, except for the name of the model.
pub struct NativeAnswer {
    pub(crate) api: CompletionApi,
    /// The requested model's name as JSON.
    pub(crate) model: Box<str>,
    request_id: Box<str>,
    /// The response's id as JSON, once a stream has had it.
    id: OnceLock<Box<str>>,
    /// The sequence number of a stream's next event.
    next_number: AtomicU64,
}

impl NativeAnswer {
    pub(super) fn new(api: CompletionApi, model: &str, request_id: &str) -> Self {
        let (model, request_id) = (model.into(), request_id.into());
        Self { api, model, request_id, id: OnceLock::new(), next_number: AtomicU64::new(0) }
    }

    /// Returns the provider's route for the format of the answer.
    pub fn route(&self) -> config::models::ModelRoute {
        route(self.api).unwrap_or(config::models::ModelRoute::Chat)
    }

    pub(crate) fn record_event(&self, number: Option<&[u8]>, id: Option<&[u8]>) {
        let text = |value: &[u8]| std::str::from_utf8(value).ok().map(str::to_owned);
        if let Some(number) = number.and_then(text).and_then(|text| text.parse::<u64>().ok()) {
            self.next_number.store(number.saturating_add(1), Ordering::Relaxed);
        }
        if let Some(id) = id.filter(|id| id.len() <= limits::IDENTITY_BYTES).and_then(text) {
            let _ = self.id.set(id.into());
        }
    }

    /// Rewrites a whole answer with the name of the requested model.
    pub fn rewrite(&self, body: &[u8], expected: &ExpectedUsage) -> Result<RewrittenAnswer, AnswerError> {
        let mut out = BytesMut::with_capacity(body.len() + limits::ADDED_BYTES);
        let (mut written, mut usage, mut said, mut is_failed) = (0, NativeUsage::default(), None, false);
        let part = |range: std::ops::Range<usize>| body.get(range).unwrap_or_default();
        for field in json::fields(body) {
            let field = field.map_err(|_| AnswerError::NoCompletion)?;
            let value = part(field.value.clone());
            match &*field.name() {
                b"model" => {
                    out.extend_from_slice(part(written..field.value.start));
                    out.extend_from_slice(self.model.as_bytes());
                    written = field.value.end;
                }
                b"usage" => usage.add(value),
                b"output" | b"content" => said = Some(value),
                b"error" => is_failed |= value != b"null",
                b"type" => is_failed |= &*json::decode_string_or_empty(value) == b"error",
                b"status" => is_failed |= &*json::decode_string_or_empty(value) == b"failed",
                _ => {}
            }
        }
        out.extend_from_slice(part(written..body.len()));
        let Some(said) = said.filter(|said| said.starts_with(b"[") && !is_failed) else {
            return Err(AnswerError::NoCompletion);
        };
        let usage = usage.or_estimate(self.api, word_bytes(said), expected);
        Ok(RewrittenAnswer { body: out.freeze(), usage, ending: ending(body).unwrap_or(Ending::Stop) })
    }

    /// Returns the usage of an incomplete answer of which `read` has arrived, plus `unread` for words that may have
    /// been written but have not. Returns `None` if `read` is not the beginning of an answer in this format.
    pub fn partial_usage(&self, read: &[u8], expected: &ExpectedUsage, unread: &TokenUsage) -> Option<TokenUsage> {
        let parsed = serde_json::from_slice::<serde::de::IgnoredAny>(read);
        if !parsed.is_err_and(|error| error.is_eof()) || !read.trim_ascii_start().starts_with(b"{") {
            return None;
        }
        let (mut usage, mut said, mut end, mut is_failed) = (NativeUsage::default(), None, 0, false);
        for field in json::fields(read).map_while(Result::ok) {
            let value = read.get(field.value.clone())?;
            match &*field.name() {
                b"usage" => usage.add(value),
                b"output" | b"content" => said = Some(value),
                b"choices" => return None,
                b"error" => is_failed |= value != b"null",
                b"type" => is_failed |= &*json::decode_string_or_empty(value) == b"error",
                b"status" => is_failed |= &*json::decode_string_or_empty(value) == b"failed",
                _ => {}
            }
            end = field.whole.end;
        }
        // The field in which it was cut off.
        let cut = read.get(end..)?.trim_ascii_start().get(1..).unwrap_or_default().trim_ascii_start();
        if is_failed || [&b"\"error\""[..], b"\"choices\""].iter().any(|name| cut.starts_with(name)) {
            return None;
        }
        let is_of_words = [&b"\"output\""[..], b"\"content\""].iter().any(|name| cut.starts_with(name));
        let words = said.unwrap_or(if is_of_words { cut } else { b"" });
        let usage = usage.or_estimate(self.api, word_bytes(words), expected);
        let unread = if usage.is_estimated { unread.completion } else { 0 };
        Some(TokenUsage { completion: usage.completion.max(unread), ..usage })
    }

    /// Appends the end of a failed stream in this format.
    pub(crate) fn fail(&self, error: ApiError, out: &mut BytesMut) {
        if self.api == CompletionApi::Messages {
            out.extend_from_slice(messages::error_event(&error, &self.request_id).as_bytes());
            return;
        }
        let error = responses::reword_error(error);
        let number = self.next_number.load(Ordering::Relaxed);
        let code = error.code().as_str();
        let event = json!({
            "type": "error", "code": code, "message": error.message(), "param": null, "sequence_number": number,
        });
        write_event("error", &event, out);
        let made = || format!("\"resp_{}\"", self.request_id.trim_start_matches("req_"));
        let id = self.id.get().map_or_else(made, ToString::to_string);
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
        let code = if error.status().is_server_error() { "server_error" } else { code };
        let event = json!({
            "type": "response.failed", "sequence_number": number + 1,
            "response": {
                "id": value(&id), "object": "response", "status": "failed", "model": value(&self.model), "output": [],
                "error": { "code": code, "message": error.message() }, "incomplete_details": null, "usage": null,
            },
        });
        write_event("response.failed", &event, out);
    }
}

fn write_event(kind: &str, data: &serde_json::Value, out: &mut BytesMut) {
    out.extend_from_slice(format!("event: {kind}\ndata: {data}\n\n").as_bytes());
}

/// Returns how an answer or a part of a stream ends, by its `stop_reason` or the reason that a response is incomplete.
pub(crate) fn ending(part: &[u8]) -> Option<Ending> {
    json::fields(part).map_while(Result::ok).fold(None, |known, field| {
        let value = part.get(field.value.clone()).unwrap_or_default();
        let ending = match &*field.name() {
            b"stop_reason" if value.starts_with(b"\"") => {
                Some(Ending::from_reason(&json::decode_string_or_empty(value)))
            }
            b"incomplete_details" if value.starts_with(b"{") => {
                let details: serde_json::Value = serde_json::from_slice(value).unwrap_or_default();
                details["reason"].as_str().map(|reason| Ending::from_reason(reason.as_bytes()))
            }
            _ => None,
        };
        ending.or(known)
    })
}

pub(crate) fn word_bytes(part: &[u8]) -> usize {
    json::count_string_bytes(part, &NO_WORDS)
}
