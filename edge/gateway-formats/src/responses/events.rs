//! Translates an answer frame by frame: a stream to events, and a whole answer to the response that would end them.

use bytes::{BufMut as _, Bytes, BytesMut};
use gateway_answer::sse::{StreamError, payloads};
use gateway_request::error::ApiError;
use openai::{usage::TokenUsage, usage_report};
use serde_json::value::RawValue;

use super::{
    super::{
        TranslateEvents,
        chat::{ChatCompletion, JsonString, TextAssembly, ToolCall},
    },
    context::{ResponsesContext, responses_field_name},
    items::{OpenCall, OpenItem, WordsKind, empty},
    object::{ErrorObject, OutputItem, ResponseEvent, ResponseObject, ResponseStatus, UsageObject},
    usage::UsageDetails,
};

/// The translation of one answer.
pub struct ResponseEvents {
    context: ResponsesContext,
    /// Whether to write events. For a whole answer, only the response is written.
    is_stream: bool,
    has_begun: bool,
    sequence: u64,
    /// The items; incomplete ones are `None`.
    output: Vec<Option<OutputItem>>,
    open: Option<OpenItem>,
    calls: Vec<OpenCall>,
    finish_reason: Option<String>,
    usage: Option<(TokenUsage, UsageDetails)>,
    held: usize,
}

/// Translates a whole answer. Returns `None` if it is not a chat completion.
pub(crate) fn whole(context: ResponsesContext, chat: &[u8]) -> Option<Bytes> {
    let mut events = ResponseEvents { is_stream: false, ..ResponseEvents::new(context) };
    let mut out = BytesMut::new();
    events.add(chat, &mut out).ok()?;
    events.complete(&mut out);
    Some(out.freeze())
}

impl ResponseEvents {
    pub(crate) fn new(context: ResponsesContext) -> Self {
        Self {
            context,
            is_stream: true,
            has_begun: false,
            sequence: 0,
            output: Vec::new(),
            open: None,
            calls: Vec::new(),
            finish_reason: None,
            usage: None,
            held: 0,
        }
    }

    fn add(&mut self, completion: &[u8], out: &mut BytesMut) -> Result<(), StreamError> {
        let completion: ChatCompletion<'_> =
            serde_json::from_slice(completion).map_err(|_| StreamError::InvalidJson)?;
        self.begin(out);
        if let Some(usage) = completion.usage {
            self.add_usage(usage);
        }
        // Clients cannot request more than one.
        let mut choices = completion.choices.into_iter().flatten();
        let Some(choice) = choices.find(|choice| choice.index.unwrap_or(0) == 0) else { return Ok(()) };
        if let Some(delta) = choice.output() {
            let thought = if self.context.wants_summary { WordsKind::Summary } else { WordsKind::Reasoning };
            for (words, said) in [
                (thought, delta.thoughts()),
                (WordsKind::Output, delta.content()),
                (WordsKind::Refusal, delta.refusal()),
            ] {
                if let Some(said) = said {
                    self.push_words(words, said, out);
                }
            }
            for call in delta.calls() {
                self.push_call(call, out)?;
            }
        }
        if let Some(reason) = choice.finish_reason() {
            self.finish_reason = Some(reason.text().into_owned());
        }
        Ok(())
    }

    fn add_usage(&mut self, reported: &RawValue) {
        let details: UsageDetails = serde_json::from_str(reported.get()).unwrap_or_default();
        let usage = usage_report::parse(reported.get().as_bytes());
        let known = self.usage.as_ref().map(|(known, _)| *known);
        // An estimate is the gateway's own, and final.
        let later = if details.estimated { usage.or(known) } else { usage_report::merge_reports(known, usage) };
        self.usage = later.map(|usage| (usage, details));
    }

    fn begin(&mut self, out: &mut BytesMut) {
        if !std::mem::replace(&mut self.has_begun, true) {
            for kind in ["response.created", "response.in_progress"] {
                self.emit_response(kind, ResponseStatus::InProgress, &[], None, out);
            }
        }
    }

    fn push_words(&mut self, words: WordsKind, said: JsonString<'_>, out: &mut BytesMut) {
        if self.open.as_ref().is_some_and(|open| !open.accepts(words)) {
            self.close_open("completed", out);
        }
        let begins_item = self.open.is_none();
        if begins_item {
            let open = OpenItem::new(words, &self.context.id, self.output.len());
            self.output.push(None);
            self.emit_item(
                "response.output_item.added",
                open.output_index,
                &open.to_item("in_progress", Vec::new()),
                out,
            );
            self.open = Some(open);
        }
        let Some(mut open) = self.open.take() else { return };
        let begins_part = begins_item || open.words != words;
        if begins_part && !begins_item {
            self.close_part(&mut open, out);
        }
        open.words = words;
        let [added, delta, ..] = words.events();
        if begins_part {
            let part = words.part(empty());
            self.emit(&ResponseEvent { kind: added, part: Some(&part), ..in_part(&open) }, out);
        }
        let logprobs = (words == WordsKind::Output).then_some([]);
        self.emit(&ResponseEvent { kind: delta, delta: Some(said.as_json()), logprobs, ..in_part(&open) }, out);
        open.text.push(said);
        self.held += said.escaped().len();
        self.open = Some(open);
    }

    fn close_part(&mut self, open: &mut OpenItem, out: &mut BytesMut) {
        let [.., text_done, part_done] = open.words.events();
        let text = std::mem::take(&mut open.text).into_json();
        let said = Some(&*text);
        let event = match open.words {
            WordsKind::Output => ResponseEvent { text: said, logprobs: Some([]), ..in_part(open) },
            WordsKind::Refusal => ResponseEvent { refusal: said, ..in_part(open) },
            WordsKind::Reasoning | WordsKind::Summary => ResponseEvent { text: said, ..in_part(open) },
        };
        self.emit(&ResponseEvent { kind: text_done, ..event }, out);
        let part = open.words.part(text);
        self.emit(&ResponseEvent { kind: part_done, part: Some(&part), ..in_part(open) }, out);
        open.parts.push(part);
    }

    /// Ends the message or thoughts last added to.
    fn close_open(&mut self, status: &'static str, out: &mut BytesMut) {
        let Some(mut open) = self.open.take() else { return };
        self.close_part(&mut open, out);
        let parts = std::mem::take(&mut open.parts);
        let item = open.to_item(status, parts);
        self.keep(open.output_index, item, out);
    }

    fn push_call(&mut self, delta: &ToolCall<'_>, out: &mut BytesMut) -> Result<(), StreamError> {
        self.close_open("completed", out);
        let name = delta.name();
        // Servers that send no index send each call in one piece.
        let index = delta.index.unwrap_or_else(|| {
            let count = self.calls.len() as u64;
            if name.is_some() { count } else { count.saturating_sub(1) }
        });
        let at = match self.calls.iter().position(|call| call.index == index) {
            Some(at) => at,
            None => self.open_call(index, delta, name, out)?,
        };
        let Some(said) = delta.arguments().and_then(JsonString::from_raw) else { return Ok(()) };
        let Some(call) = self.calls.get_mut(at).filter(|_| !said.escaped().is_empty()) else { return Ok(()) };
        let was_blank = call.arguments.is_blank();
        call.arguments.push(said);
        self.held += said.escaped().len();
        // A custom tool's input is known only when complete. Blank arguments are written as an object at the end.
        if !call.is_custom() && !call.arguments.is_blank() {
            let (id, output_index) = (call.id.clone(), call.output_index);
            let with_blanks = was_blank.then(|| call.arguments.to_json());
            let event = ResponseEvent {
                kind: "response.function_call_arguments.delta",
                delta: Some(with_blanks.as_deref().unwrap_or(said.as_json())),
                ..ResponseEvent::default()
            };
            self.emit(&ResponseEvent { item_id: Some(&id), output_index: Some(output_index), ..event }, out);
        }
        Ok(())
    }

    fn open_call(
        &mut self,
        index: u64,
        delta: &ToolCall<'_>,
        name: Option<JsonString<'_>>,
        out: &mut BytesMut,
    ) -> Result<usize, StreamError> {
        if self.calls.len() >= limits::TOOL_CALLS {
            return Err(StreamError::TooLarge);
        }
        let output_index = self.output.len();
        self.output.push(None);
        let name = name.map(|name| name.text().into_owned()).unwrap_or_default();
        let tool = self.context.find_tool(&name).cloned();
        let prefix = if tool.as_ref().is_some_and(|tool| tool.is_custom) { "ctc" } else { "fc" };
        let base = &self.context.id;
        let given = delta.id().map(|id| id.text().into_owned());
        let call = OpenCall {
            index,
            id: format!("{prefix}_{base}{output_index:02x}"),
            output_index,
            call_id: given.unwrap_or_else(|| format!("call_{base}{output_index:02x}")),
            name,
            tool,
            arguments: TextAssembly::default(),
        };
        self.emit_item("response.output_item.added", output_index, &call.to_item("in_progress", empty()), out);
        self.calls.push(call);
        Ok(self.calls.len() - 1)
    }

    fn close_call(&mut self, mut call: OpenCall, status: &'static str, out: &mut BytesMut) {
        let [delta, done] = if call.is_custom() {
            ["response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"]
        } else {
            ["response.function_call_arguments.delta", "response.function_call_arguments.done"]
        };
        let is_blank = call.arguments.is_blank() && !call.is_custom();
        // A function without parameters: clients parse its arguments.
        let said = if is_blank { object() } else { call.take_arguments() };
        if is_blank || call.is_custom() {
            let event = ResponseEvent { kind: delta, delta: Some(&said), ..ResponseEvent::default() };
            self.emit(&ResponseEvent { item_id: Some(&call.id), output_index: Some(call.output_index), ..event }, out);
        }
        let event = ResponseEvent {
            kind: done,
            item_id: Some(&call.id),
            output_index: Some(call.output_index),
            ..ResponseEvent::default()
        };
        if call.is_custom() {
            self.emit(&ResponseEvent { input: Some(&said), ..event }, out);
        } else {
            let name = call.tool.as_ref().map_or(&call.name, |tool| &tool.name);
            self.emit(&ResponseEvent { name: Some(name), arguments: Some(&said), ..event }, out);
        }
        let item = call.to_item(status, said);
        self.keep(call.output_index, item, out);
    }

    /// Ends the answer: the open items, and the response.
    fn complete(&mut self, out: &mut BytesMut) {
        self.begin(out);
        let (kind, status, item_status) = match self.finish_reason.as_deref() {
            Some("length") => ("response.incomplete", ResponseStatus::Incomplete("max_output_tokens"), "incomplete"),
            Some("content_filter") => {
                ("response.incomplete", ResponseStatus::Incomplete("content_filter"), "incomplete")
            }
            _ => ("response.completed", ResponseStatus::Completed, "completed"),
        };
        self.close_open(item_status, out);
        let calls = std::mem::take(&mut self.calls);
        let last = calls.len().saturating_sub(1);
        for (at, call) in calls.into_iter().enumerate() {
            self.close_call(call, if at == last { item_status } else { "completed" }, out);
        }
        let output: Vec<_> = std::mem::take(&mut self.output).into_iter().flatten().collect();
        let usage = self.usage.map(|(usage, details)| UsageObject::new(&usage, &details));
        if self.is_stream {
            self.emit_response(kind, status, &output, usage, out);
        } else {
            let response = ResponseObject::new(&self.context, status, &output, usage);
            // Serializing strings and numbers to memory cannot fail.
            let _ = serde_json::to_writer(out.writer(), &response);
        }
    }

    fn keep(&mut self, output_index: usize, item: OutputItem, out: &mut BytesMut) {
        self.emit_item("response.output_item.done", output_index, &item, out);
        if let Some(place) = self.output.get_mut(output_index) {
            *place = Some(item);
        }
    }

    fn emit_item(&mut self, kind: &'static str, output_index: usize, item: &OutputItem, out: &mut BytesMut) {
        self.emit(
            &ResponseEvent { kind, output_index: Some(output_index), item: Some(item), ..ResponseEvent::default() },
            out,
        );
    }

    fn emit_response(
        &mut self,
        kind: &'static str,
        status: ResponseStatus<'_>,
        output: &[OutputItem],
        usage: Option<UsageObject>,
        out: &mut BytesMut,
    ) {
        if self.is_stream {
            let sequence_number = self.next_number();
            let response = ResponseObject::new(&self.context, status, output, usage);
            write(&ResponseEvent { kind, sequence_number, response: Some(&response), ..ResponseEvent::default() }, out);
        }
    }

    fn emit(&mut self, event: &ResponseEvent<'_>, out: &mut BytesMut) {
        if self.is_stream {
            write(&ResponseEvent { sequence_number: self.next_number(), ..*event }, out);
        }
    }

    fn next_number(&mut self) -> u64 {
        let number = self.sequence;
        self.sequence += 1;
        number
    }
}

impl TranslateEvents for ResponseEvents {
    fn push(&mut self, chat: &[u8], out: &mut BytesMut) -> Result<(), StreamError> {
        for payload in payloads(chat) {
            if payload.trim_ascii() == b"[DONE]" {
                self.complete(out);
            } else {
                self.add(&payload, out)?;
            }
        }
        Ok(())
    }

    fn held(&self) -> usize {
        self.held
    }

    fn fail(&mut self, error: ApiError, out: &mut BytesMut) {
        self.begin(out);
        let error = super::reword_error(error.rename_param(|param| responses_field_name(param).map(str::to_owned)));
        let code = error.code().as_str();
        // SDKs throw the event `error`, and agents read the response.
        let json: Option<Box<RawValue>> = serde_json::from_str(&error.to_json())
            .ok()
            .and_then(|mut shape: serde_json::Map<String, serde_json::Value>| shape.remove("error"))
            .and_then(|error| serde_json::value::to_raw_value(&error).ok());
        let event = ResponseEvent {
            kind: "error",
            code: Some(code),
            message: Some(error.message()),
            ..ResponseEvent::default()
        };
        self.emit(&ResponseEvent { error: json.as_deref(), ..event }, out);
        let code = if error.status().is_server_error() { "server_error" } else { code };
        let object = ErrorObject { code, message: error.message().to_owned() };
        let output: Vec<_> = std::mem::take(&mut self.output).into_iter().flatten().collect();
        let usage = self.usage.map(|(usage, details)| UsageObject::new(&usage, &details));
        self.emit_response("response.failed", ResponseStatus::Failed(&object), &output, usage, out);
    }
}

/// Creates an event about the current part.
fn in_part(open: &OpenItem) -> ResponseEvent<'_> {
    let index = Some(open.parts.len());
    let (content_index, summary_index) = if open.words == WordsKind::Summary { (None, index) } else { (index, None) };
    ResponseEvent {
        item_id: Some(&open.id),
        output_index: Some(open.output_index),
        content_index,
        summary_index,
        ..ResponseEvent::default()
    }
}

fn object() -> Box<RawValue> {
    RawValue::from_string(r#""{}""#.to_owned()).unwrap_or_else(|_| empty())
}

fn write(event: &ResponseEvent<'_>, out: &mut BytesMut) {
    // A `Vec` is faster than `out` for many small pieces.
    let mut text = Vec::with_capacity(limits::USUAL_EVENT_BYTES);
    for part in ["event: ", event.kind, "\ndata: "] {
        text.extend_from_slice(part.as_bytes());
    }
    // Serializing strings and numbers to memory cannot fail.
    let _ = serde_json::to_writer(&mut text, event);
    text.extend_from_slice(b"\n\n");
    out.extend_from_slice(&text);
}
