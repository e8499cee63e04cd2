//! Streamed answers: server-sent events that are passed on byte for byte, except for the model's name and words in
//! lists, while their usage is read. Other fields are not inspected, except for the length of the model's words.
//!
//! An *event* ends with an empty line; a *frame* is the JSON object in an event's `data`.

mod ending;
mod error;
mod event;
mod merged;
pub mod payloads;
mod relayed;
mod reports;
mod split;

use std::{ops::Range, sync::Arc};

use bytes::BytesMut;
use config::models::ModelRoute;
use domain::usage::Ending;
use edge_metrics as metrics;
use gateway_request::{error::ErrorReport, models::ServedModel};
use openai::{
    dialect, json,
    usage::TokenUsage,
    usage_report::{self, CostFields, ExpectedUsage},
};

use self::reports::ChoiceReports;
pub use self::{
    error::StreamError,
    event::{EventData, EventSearch, SseEvent},
    merged::MergedAnswer,
    payloads::payloads,
    relayed::RelayedStream,
    split::EventSplitter,
};
use super::json_answer;

/// May precede the first line of a stream.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Whether a stream is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamProgress {
    /// The last frame has not arrived yet.
    Ongoing,
    /// The last frame has arrived. Anything that follows is ignored.
    Complete,
}

/// Reads the events of one stream and rewrites them for the client.
pub struct ChatFrames {
    model: Arc<ServedModel>,
    expected: ExpectedUsage,
    route: ModelRoute,
    events: EventSplitter,
    has_begun: bool,
    /// The largest usage reported so far.
    usage: Option<TokenUsage>,
    /// Whether `usage` covers the whole answer.
    is_usage_final: bool,
    /// The usage reported in frames that also have choices.
    reports: ChoiceReports,
    /// The estimated tokens in the frames so far, for a provider that reports no usage.
    estimated_completion: u64,
    /// The number of frames with words of the model.
    with_words: u64,
    with_choices: u64,
    /// Whether a content filter ended a choice without words.
    is_filtered: bool,
    /// How the most recently ended choice ended.
    ending: Option<Ending>,
    /// The report in the first frame that is no part of a completion.
    left_out_report: Option<ErrorReport>,
    /// The `id` and `created` of the first frame, for a frame that the gateway adds.
    identity: Option<Vec<u8>>,
    last: LastFrame,
    /// The number of frames that are no part of a completion.
    left_out: u64,
}

#[derive(Default)]
struct LastFrame {
    has_usage: bool,
    /// Whether only `[DONE]` can follow.
    is_closing: bool,
}

impl ChatFrames {
    /// Creates the reader of a chat completion's stream. Usage that is not reported is estimated from `expected`.
    pub fn new(model: Arc<ServedModel>, expected: ExpectedUsage) -> Self {
        Self {
            model,
            expected,
            route: ModelRoute::Chat,
            events: EventSplitter::default(),
            has_begun: false,
            usage: None,
            is_usage_final: false,
            reports: ChoiceReports::default(),
            estimated_completion: 0,
            with_words: 0,
            with_choices: 0,
            is_filtered: false,
            ending: None,
            left_out_report: None,
            identity: None,
            last: LastFrame::default(),
            left_out: 0,
        }
    }

    /// Sets the route of the request, if it is not a chat completion.
    #[must_use]
    pub fn at(self, route: ModelRoute) -> Self {
        Self { route, ..self }
    }

    /// Reads the next bytes, split anywhere, and appends the events that they complete to `out`.
    pub fn push(&mut self, chunk: &[u8], out: &mut BytesMut) -> Result<StreamProgress, StreamError> {
        let mut events = std::mem::take(&mut self.events);
        let progress = events.push(chunk, limits::FRAME_BYTES, |event| self.process(event, out));
        self.events = events;
        progress
    }

    /// Ends a stream that the provider has closed. Fails if the last frame is missing.
    pub fn end(&mut self, out: &mut BytesMut) -> Result<(), StreamError> {
        let mut events = std::mem::take(&mut self.events);
        if let Some(progress) = events.finish(|event| self.process(event, out))
            && progress? == StreamProgress::Complete
        {
            return Ok(());
        }
        if !self.last.is_closing || self.may_cover_one_choice() {
            return Err(StreamError::CutOff);
        }
        self.close(out)
    }

    /// Returns the usage reported so far, or an estimate where the reports do not cover the words or all choices.
    pub fn usage(&self) -> TokenUsage {
        let words = self.estimated_completion.max(self.with_choices.min(1));
        let Some(reported) = &self.usage else { return self.expected.estimate(words) };
        // The model has written words although the report counts no tokens.
        if reported.completion == 0 && self.has_words() {
            return self.expected.estimate_with_prompt(reported, words);
        }
        let summed = self.reports.sum();
        if self.may_cover_one_choice() && !self.reports.covers_all_choices(reported, words, self.with_words) {
            return self.expected.estimate_with_prompt(reported, summed);
        }
        *reported
    }

    /// Returns whether the reported usage may cover only one of several choices, each with its own report.
    fn may_cover_one_choice(&self) -> bool {
        self.expected.choices > 1 && self.reports.count() > 1 && !self.is_usage_final
    }

    /// Returns the usage of a stream that broke off, which is exact if all of it was reported before.
    pub fn usage_so_far(&self) -> TokenUsage {
        let usage = self.usage();
        TokenUsage { is_estimated: usage.is_estimated || !self.is_usage_final, ..usage }
    }

    /// Returns the most that a stream may use that is not read on, or its usage if all of it was reported.
    pub fn usage_at_most(&self) -> TokenUsage {
        let usage = self.usage_so_far();
        if usage.is_estimated { self.expected.estimate_with_prompt(&usage, self.expected.completion) } else { usage }
    }

    /// Returns how the most recently ended choice ended; [`Ending::Stop`] if none has stated it.
    pub fn ending(&self) -> Ending {
        self.ending.unwrap_or(Ending::Stop)
    }

    /// Returns whether there were any words of the model or a usage report.
    pub fn has_content(&self) -> bool {
        self.has_usage() || self.has_words()
    }

    /// Returns whether any frame so far had words of the model.
    pub fn has_words(&self) -> bool {
        self.with_words > 0
    }

    /// Returns whether the provider has reported any usage so far.
    pub fn has_usage(&self) -> bool {
        self.usage.is_some()
    }

    /// Counts and logs the frames left out because they were no part of a completion. Called once, at the end.
    pub fn report_left_out(&self, request_id: &str) {
        if self.left_out > 0 {
            let provider = &*self.model.upstream.name;
            tracing::warn!(
                provider,
                request = request_id,
                frames = self.left_out,
                "frames of a stream were no part of a completion, and were left out"
            );
            metrics::frames_dropped(provider, self.left_out);
        }
    }

    fn process(&mut self, event: &[u8], out: &mut BytesMut) -> Result<StreamProgress, StreamError> {
        let before = out.len();
        let processed = self.process_event(event, out);
        if processed.is_err() {
            // The part already written may contain the provider's own error message.
            out.truncate(before);
        }
        processed
    }

    fn process_event(&mut self, event: &[u8], out: &mut BytesMut) -> Result<StreamProgress, StreamError> {
        let event = match event.strip_prefix(BYTE_ORDER_MARK) {
            Some(event) if !self.has_begun => event,
            _ => event,
        };
        self.has_begun = true;
        let mut parsed = SseEvent::parse(event);
        if parsed.is_error {
            return Err(StreamError::Reported(self.report(parsed.data.bytes(event))));
        }
        // Providers report problems as bare text or bare JSON.
        if !parsed.is_valid {
            return Err(StreamError::NoEvent(self.report(event)));
        }
        let has_data = !matches!(parsed.data, EventData::None);
        let cleaned;
        let event = if parsed.is_odd || !has_data {
            cleaned = event::without_odd_lines(event, has_data);
            parsed = SseEvent::parse(&cleaned);
            &cleaned[..]
        } else {
            event
        };
        let before = out.len();
        let lines;
        let (payload, span) = match parsed.data {
            EventData::None => {
                out.extend_from_slice(event);
                return Ok(StreamProgress::Ongoing);
            }
            EventData::Line(span) => (event.get(span.clone()).unwrap_or_default(), Some(span)),
            EventData::Lines(joined) => {
                lines = joined;
                (&lines[..], None)
            }
        };
        if payload.trim_ascii() == b"[DONE]" {
            self.close(out)?;
            return Ok(StreamProgress::Complete);
        }
        let (head, tail) = match span {
            Some(Range { start, end }) => (event.get(..start), event.get(end..)),
            None => (Some(&b"data: "[..]), Some(&b"\n\n"[..])),
        };
        out.extend_from_slice(head.unwrap_or_default());
        let passes = self.process_frame(payload, out)?;
        out.extend_from_slice(tail.unwrap_or_default());
        if !passes {
            if self.left_out == 0 {
                self.left_out_report = Some(self.report(payload));
            }
            self.left_out += 1;
            out.truncate(before);
        }
        Ok(StreamProgress::Ongoing)
    }

    /// Parses a provider's error. After the first words the report is not used.
    fn report(&self, body: &[u8]) -> ErrorReport {
        if self.has_words() { ErrorReport::NONE } else { ErrorReport::parse(body) }
    }

    /// Rewrites a frame. Returns whether it passes as part of a completion. Anything else that a provider sends is most
    /// likely an error in its own words.
    fn process_frame(&mut self, frame: &[u8], out: &mut BytesMut) -> Result<bool, StreamError> {
        let part = |range: Range<usize>| frame.get(range).unwrap_or_default();
        let (mut usage, mut choices, mut id, mut created) = (None, None, None, None);
        // If a field occurs twice, clients use the last one.
        let mut has_usage = false;
        // The end of the last `usage` in `out`.
        let mut usage_end = 0;
        let mut written = 0;
        for field in json::fields(frame) {
            let field = field?;
            match &*field.name() {
                b"model" => {
                    out.extend_from_slice(part(written..field.value.start));
                    out.extend_from_slice(self.model.id_json.as_bytes());
                    written = field.value.end;
                }
                b"usage" => {
                    let places = &self.model.model.provider.usage;
                    let reported =
                        usage_report::parse_provider_usage(part(field.value.clone()), places, self.expected.images);
                    has_usage = reported.is_some();
                    if let Some(reported) = &reported {
                        if self.model.model.provider.has_openai_usage {
                            out.extend_from_slice(part(written..field.value.end));
                        } else {
                            // In the client's format, including everything reported before.
                            let all = usage_report::merge_reports(self.usage, Some(*reported)).unwrap_or(*reported);
                            let cost = CostFields::for_usage(&all, &self.model.model);
                            out.extend_from_slice(part(written..field.value.start));
                            out.extend_from_slice(usage_report::to_json(&all, &cost).as_bytes());
                        }
                        written = field.value.end;
                        usage_end = out.len();
                    }
                    usage = usage_report::merge_reports(usage, reported);
                }
                b"choices" => {
                    choices = Some(part(field.value.clone()));
                    let flat = match self.route {
                        ModelRoute::Completions => dialect::to_text_choices(part(field.value.clone())),
                        _ => dialect::flatten_choices(part(field.value.clone())),
                    };
                    if let Some(flat) = flat {
                        out.extend_from_slice(part(written..field.value.start));
                        out.extend_from_slice(&flat);
                        written = field.value.end;
                    }
                }
                b"error" if part(field.value.clone()) != b"null" => {
                    return Err(StreamError::Reported(self.report(frame)));
                }
                b"object" if &*json::decode_string_or_empty(part(field.value.clone())) == b"error" => {
                    return Err(StreamError::Reported(self.report(frame)));
                }
                b"object" if self.route == ModelRoute::Completions => {
                    out.extend_from_slice(part(written..field.value.start));
                    out.extend_from_slice(json_answer::TEXT_COMPLETION.as_bytes());
                    written = field.value.end;
                }
                b"id" => id = Some(part(field.value)),
                b"created" => created = Some(part(field.value)),
                _ => {}
            }
        }
        out.extend_from_slice(part(written..frame.len()));

        let choices = match choices {
            None | Some(b"null") if usage.is_some() => None,
            Some(choices) if choices.starts_with(b"[") => Some(choices).filter(|choices| !is_empty(choices)),
            _ => return Ok(false),
        };
        if self.identity.is_none() {
            self.identity = Some(ending::identity(id, created));
        }
        if let Some(choices) = choices {
            self.with_choices += 1;
            let word_bytes = usage_report::word_bytes(choices);
            let ending = if word_bytes > 0 {
                self.with_words += 1;
                self.estimated_completion += usage_report::estimate_tokens(word_bytes);
                usage_report::frame_ending(choices)
            } else {
                self.is_filtered |= usage_report::is_filtered(choices);
                usage_report::last_finish_reason(choices)
            };
            self.ending = ending.or(self.ending);
            if self.expected.choices > 1
                && let Some(usage) = &usage
            {
                self.reports.add(choices, usage);
            }
        }
        let is_closing =
            usage.is_some() && choices.is_none_or(|choices| usage_report::last_finish_reason(choices).is_some());
        self.last = LastFrame { has_usage, is_closing };
        // With several choices, each one ends by itself.
        self.is_usage_final |= is_closing && (choices.is_none() || self.expected.choices == 1);
        // Some providers report a running total in every frame, so the largest report counts, never the sum.
        self.usage = usage_report::merge_reports(self.usage.take(), usage);
        if is_closing
            && has_usage
            && let Some(usage) = &self.usage
        {
            self.write_cost(usage, usage_end, out);
        }
        Ok(true)
    }
}

fn is_empty(array: &[u8]) -> bool {
    array.get(1..).unwrap_or_default().trim_ascii_start().starts_with(b"]")
}

#[cfg(test)]
mod tests;
