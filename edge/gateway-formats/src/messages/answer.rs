//! A whole answer.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    super::chat::{CompletionChoice, JsonString, ModelOutput, ToolCall},
    MessagesContext, SIGNATURE,
    ending::{StopReasons, call_id},
    request::DecodedStr,
    usage::{MessagesUsage, UsageReports},
};

#[derive(Serialize)]
struct MessageAnswer<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: &'a RawValue,
    content: Vec<AnswerBlock<'a>>,
    stop_reason: &'static str,
    stop_sequence: Option<&'a str>,
    usage: MessagesUsage,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnswerBlock<'a> {
    Thinking { thinking: JsonString<'a>, signature: &'static str },
    Text { text: JsonString<'a> },
    ToolUse { id: CallId<'a>, name: JsonString<'a>, input: Box<RawValue> },
}

#[derive(Serialize)]
#[serde(untagged)]
enum CallId<'a> {
    Given(JsonString<'a>),
    Made(String),
}

/// Translates a whole answer. Returns `None` if it is not a chat completion.
pub(crate) fn whole(context: &MessagesContext, chat: &[u8]) -> Option<Bytes> {
    // If a field occurs twice, the last one counts, as for clients of chat completions.
    let fields: BTreeMap<DecodedStr<'_>, &RawValue> = serde_json::from_slice(chat).ok()?;
    let choices: Vec<CompletionChoice<'_>> = serde_json::from_str(fields.get("choices")?.get()).ok()?;
    let (mut reports, mut ending) = (UsageReports::default(), StopReasons::default());
    if let Some(usage) = fields.get("usage") {
        reports.add(usage);
    }
    let id = context.message_id();
    let mut content = Vec::new();
    for choice in choices.iter().take(1) {
        ending.read(choice, &context.stop_sequences);
        if let Some(said) = choice.output() {
            let thoughts = said.thoughts().filter(|_| context.shows_thinking);
            content.extend(thoughts.map(|thinking| AnswerBlock::Thinking { thinking, signature: SIGNATURE }));
            content
                .extend([said.content(), said.refusal()].into_iter().flatten().map(|text| AnswerBlock::Text { text }));
            content.extend(calls(said, &id));
        }
    }
    let (stop_reason, stop_sequence) = ending.reason();
    let answer = MessageAnswer {
        id: &id,
        kind: "message",
        role: "assistant",
        model: &context.model,
        content,
        stop_reason,
        stop_sequence,
        usage: reports.usage(),
    };
    serde_json::to_vec(&answer).ok().map(Bytes::from)
}

fn calls<'a>(said: &ModelOutput<'a>, message: &str) -> impl Iterator<Item = AnswerBlock<'a>> {
    said.calls().iter().enumerate().filter_map(move |(number, call)| {
        let id = call.id().map_or_else(|| CallId::Made(call_id(message, number)), CallId::Given);
        Some(AnswerBlock::ToolUse { id, name: call.name()?, input: call_input(call) })
    })
}

/// Returns the arguments of a call as an object. Invalid arguments stay readable under a name that no tool has: the
/// client then refuses the call, and the model may correct it.
fn call_input(call: &ToolCall<'_>) -> Box<RawValue> {
    let empty = || RawValue::from_string("{}".to_owned()).unwrap_or_default();
    let Some(arguments) = call.arguments() else { return empty() };
    if arguments.get().starts_with('{') {
        return arguments.to_owned();
    }
    let Ok(text) = serde_json::from_str::<DecodedStr<'_>>(arguments.get()) else { return empty() };
    if text.trim().is_empty() {
        return empty();
    }
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(object) if object.get().starts_with('{') => object.to_owned(),
        _ => serde_json::value::to_raw_value(&BTreeMap::from([("arguments", &*text)])).unwrap_or_else(|_| empty()),
    }
}
