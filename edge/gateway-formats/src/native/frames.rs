//! Streams of Responses or Messages answers that pass in the provider's own format, while their usage is read.
//!
//! Every event passes byte for byte, except for the model's name. Errors do not pass.

use std::{ops::Range, sync::Arc};

use bytes::BytesMut;
use domain::usage::Ending;
use gateway_answer::sse::{EventData, EventSplitter, SseEvent, StreamError, StreamProgress};
use gateway_request::error::ErrorReport;
use openai::{
    json,
    usage::TokenUsage,
    usage_report::{self, ExpectedUsage},
};

use super::{
    super::CompletionApi,
    NativeAnswer, NativeUsage,
    answer::{ending as native_ending, word_bytes as native_word_bytes},
};

/// Reads the events of one stream in its own format.
pub struct NativeFrames {
    answer: Arc<NativeAnswer>,
    expected: ExpectedUsage,
    events: EventSplitter,
    usage: NativeUsage,
    words: usize,
    ending: Option<Ending>,
    is_complete: bool,
}

impl NativeFrames {
    /// Creates the reader of the stream of `answer`. Usage that is not reported is estimated from `expected`.
    pub fn new(answer: Arc<NativeAnswer>, expected: ExpectedUsage) -> Self {
        let (events, usage) = (EventSplitter::default(), NativeUsage::default());
        Self { answer, expected, events, usage, words: 0, ending: None, is_complete: false }
    }

    /// Reads the next bytes, split anywhere, and appends the events that they complete to `out`.
    pub(crate) fn push(&mut self, chunk: &[u8], out: &mut BytesMut) -> Result<StreamProgress, StreamError> {
        let mut events = std::mem::take(&mut self.events);
        let progress = events.push(chunk, limits::NATIVE_EVENT_BYTES, |event| self.process(event, out));
        self.events = events;
        progress
    }

    /// Ends a stream that the provider has closed. Fails if its last event is missing.
    pub(crate) fn end(&mut self, out: &mut BytesMut) -> Result<(), StreamError> {
        let mut events = std::mem::take(&mut self.events);
        if let Some(progress) = events.finish(|event| self.process(event, out)) {
            progress?;
        }
        if self.is_complete { Ok(()) } else { Err(StreamError::CutOff) }
    }

    pub(crate) fn usage(&self) -> TokenUsage {
        self.usage.or_estimate(self.answer.api, self.words, &self.expected)
    }

    /// Returns the usage of a stream that broke off, where reports before the end may be partial.
    pub(crate) fn usage_so_far(&self) -> TokenUsage {
        let usage = self.usage();
        if self.is_complete {
            return usage;
        }
        let words = usage_report::estimate_tokens(self.words).min(self.expected.completion);
        TokenUsage { completion: usage.completion.max(words), is_estimated: true, ..usage }
    }

    /// Returns the most that a stream may use that is not read on, or its usage if all of it was reported.
    pub(crate) fn usage_at_most(&self) -> TokenUsage {
        let usage = self.usage_so_far();
        if self.is_complete { usage } else { self.expected.estimate_with_prompt(&usage, self.expected.completion) }
    }

    pub(crate) fn ending(&self) -> Ending {
        self.ending.unwrap_or(Ending::Stop)
    }

    pub(crate) fn has_words(&self) -> bool {
        self.words > 0
    }

    /// Returns whether the provider has reported usage of an answer.
    pub(crate) fn has_usage(&self) -> bool {
        self.usage.read(self.answer.api).is_some_and(|usage| usage.completion > 0)
            && (self.has_words() || self.is_complete)
    }

    fn process(&mut self, event: &[u8], out: &mut BytesMut) -> Result<StreamProgress, StreamError> {
        let parsed = SseEvent::parse(event);
        if parsed.is_error {
            return Err(StreamError::Reported(self.report(parsed.data.bytes(event))));
        }
        if !parsed.is_valid {
            return Err(StreamError::NoEvent(self.report(event)));
        }
        let joined;
        let (data, span) = match parsed.data {
            EventData::None => {
                out.extend_from_slice(event);
                return Ok(StreamProgress::Ongoing);
            }
            EventData::Line(span) => (event.get(span.clone()).unwrap_or_default(), Some(span)),
            EventData::Lines(lines) => {
                joined = lines;
                (&joined[..], None)
            }
        };
        if data.trim_ascii() == b"[DONE]" {
            return Err(StreamError::CutOff);
        }
        let read = self.read(data)?;
        let (head, tail) = match span {
            Some(span) => (event.get(..span.start).unwrap_or_default(), event.get(span.end..).unwrap_or_default()),
            None => (&b"data: "[..], &b"\n\n"[..]),
        };
        out.extend_from_slice(head);
        match read.model {
            Some(model) => {
                out.extend_from_slice(data.get(..model.start).unwrap_or_default());
                out.extend_from_slice(self.answer.model.as_bytes());
                out.extend_from_slice(data.get(model.end..).unwrap_or_default());
            }
            None => out.extend_from_slice(data),
        }
        out.extend_from_slice(tail);
        if read.is_last {
            self.is_complete = true;
            return Ok(StreamProgress::Complete);
        }
        Ok(StreamProgress::Ongoing)
    }

    fn read(&mut self, data: &[u8]) -> Result<EventSummary, StreamError> {
        let part = |range: Range<usize>| data.get(range).unwrap_or_default();
        let (mut kind, mut object, mut number) = (Vec::new(), None, None);
        for field in json::fields(data) {
            let field = field?;
            match &*field.name() {
                b"type" => kind = json::decode_string_or_empty(part(field.value)).into_owned(),
                b"response" | b"message" if part(field.value.clone()).starts_with(b"{") => object = Some(field.value),
                b"usage" => self.usage.add(part(field.value)),
                b"delta" => {
                    let delta = part(field.value);
                    self.words += count_word_bytes(delta);
                    self.ending = native_ending(delta).or(self.ending);
                }
                b"sequence_number" => number = Some(part(field.value)),
                _ => {}
            }
        }
        let (mut model, mut id) = (None, None);
        if let Some(object) = object {
            let text = part(object.clone());
            self.ending = native_ending(text).or(self.ending);
            for field in json::fields(text) {
                let field = field?;
                let value = text.get(field.value.clone()).unwrap_or_default();
                match &*field.name() {
                    b"model" => model = Some(object.start + field.value.start..object.start + field.value.end),
                    b"id" => id = Some(value),
                    b"usage" => self.usage.add(value),
                    _ => {}
                }
            }
        }
        self.answer.record_event(number, id);
        let is_last = match (self.answer.api, &kind[..]) {
            (CompletionApi::Responses, b"response.failed" | b"error") | (CompletionApi::Messages, b"error") => {
                return Err(StreamError::Reported(self.report(data)));
            }
            (CompletionApi::Responses, b"response.completed" | b"response.incomplete") => true,
            (CompletionApi::Messages, kind) => kind == b"message_stop",
            _ => false,
        };
        Ok(EventSummary { model, is_last })
    }

    /// Parses a provider's error. After the first words the report is not used.
    fn report(&self, body: &[u8]) -> ErrorReport {
        if self.has_words() { ErrorReport::NONE } else { ErrorReport::parse(body) }
    }
}

/// The relevant parts of an event's data.
struct EventSummary {
    model: Option<Range<usize>>,
    is_last: bool,
}

/// Counts the bytes of the words in a delta: a string, or an object with one.
fn count_word_bytes(delta: &[u8]) -> usize {
    if delta.starts_with(b"\"") { delta.len().saturating_sub(2) } else { native_word_bytes(delta) }
}
