//! Translates the items of a request's input to messages.
//!
//! Chat completions have one message per turn of the model, so consecutive thoughts, words and tool calls are merged
//! into one. Instructions at the beginning are merged too, because chat templates only read the first message for them.

use std::mem;

use gateway_request::error::ApiError;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::chat::{
        AssistantToolCall, CallArguments, ChatMessage, ChatPart, ChatText, ChatWriter, JsonString, MessageContent,
    },
    content::{into_parts, parse_content, plain_texts},
    request::{for_each_at, parse_part_at},
    tools::{FunctionTools, function_name},
    warnings::LeftOutWarnings,
};

const PARAGRAPH: &str = "\n\n";

#[derive(Debug, Deserialize)]
struct InputItem<'b> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonString<'b>>,
    #[serde(borrow)]
    role: Option<JsonString<'b>>,
    #[serde(borrow)]
    content: Option<&'b RawValue>,
    #[serde(borrow)]
    call_id: Option<JsonString<'b>>,
    #[serde(borrow)]
    name: Option<JsonString<'b>>,
    #[serde(borrow)]
    namespace: Option<JsonString<'b>>,
    #[serde(borrow)]
    arguments: Option<&'b RawValue>,
    #[serde(borrow)]
    input: Option<JsonString<'b>>,
    #[serde(borrow)]
    output: Option<&'b RawValue>,
    #[serde(borrow)]
    summary: Option<&'b RawValue>,
    #[serde(borrow)]
    tools: Option<&'b RawValue>,
}

/// The position of a message in the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageSource {
    Instructions,
    /// The whole input, as a string.
    Input,
    Item(usize),
}

pub(super) struct InputConversation<'a, 'b> {
    tools: &'a mut FunctionTools<'b>,
    warnings: &'a mut LeftOutWarnings,
    messages: ChatWriter<'b>,
    places: Vec<MessageSource>,
    instructions: Vec<JsonString<'b>>,
    instructed_at: MessageSource,
    thoughts: Option<String>,
    /// Images returned by tools. Tool messages can only hold text, so the images follow in a user message.
    images: Vec<ChatPart<'b>>,
}

impl<'a, 'b> InputConversation<'a, 'b> {
    pub(super) fn new(
        messages: ChatWriter<'b>,
        tools: &'a mut FunctionTools<'b>,
        warnings: &'a mut LeftOutWarnings,
    ) -> Self {
        Self {
            tools,
            warnings,
            messages,
            places: Vec::new(),
            instructions: Vec::new(),
            instructed_at: MessageSource::Instructions,
            thoughts: None,
            images: Vec::new(),
        }
    }

    /// Adds an instruction before any message.
    pub(super) fn add_instruction(&mut self, text: JsonString<'b>) {
        self.instructions.push(text);
    }

    pub(super) fn add_input(&mut self, input: &'b RawValue) -> Result<(), ApiError> {
        if let Some(text) = JsonString::from_raw(input) {
            self.add_message("user", MessageContent::Text(ChatText::AsSent(text)), MessageSource::Input);
            return Ok(());
        }
        if !input.get().starts_with('[') {
            return Err(ApiError::invalid_type("input", "a string or an array of items"));
        }
        for_each_at(
            input,
            || "input".to_owned(),
            |index, item: &'b RawValue| {
                let item: InputItem<'b> = parse_part_at(item, || format!("input[{index}]"))?;
                self.add_item(&item, index)
            },
        )
    }

    fn add_item(&mut self, item: &InputItem<'b>, index: usize) -> Result<(), ApiError> {
        let kind = item.kind.map(JsonString::text);
        let kind = match (&kind, item.role) {
            (Some(kind), _) => &**kind,
            (None, Some(_)) => "message",
            (None, None) => "item_reference",
        };
        if !matches!(kind, "function_call_output" | "custom_tool_call_output") {
            self.show_images();
        }
        match kind {
            "message" => self.add_message_item(item, index),
            "function_call" => {
                let arguments = item.arguments.and_then(JsonString::from_raw);
                let arguments = arguments.ok_or_else(|| invalid(index, ".arguments", "a string"))?;
                self.add_call(item, ChatText::AsSent(arguments), index)
            }
            "custom_tool_call" => {
                let input = item.input.ok_or_else(|| invalid(index, ".input", "a string"))?;
                let arguments = serde_json::json!({ "input": input.text() }).to_string();
                self.add_call(item, ChatText::Written(arguments.into()), index)
            }
            "function_call_output" | "custom_tool_call_output" => self.add_output(item, index),
            "reasoning" => self.add_thoughts(item, index),
            "additional_tools" => self.tools.add(item.tools, &format!("input[{index}].tools"), self.warnings),
            "item_reference" => Err(ApiError::invalid_value(
                format!("input[{index}]"),
                "nothing is stored here, so there is nothing to refer to: send the item itself",
            )),
            "compaction" | "compaction_trigger" | "context_compaction" => Err(ApiError::invalid_value(
                format!("input[{index}].type"),
                "only its author can read a compacted conversation: send the items, or a summary in plain text",
            )),
            _ => match left_out_item(kind) {
                Some(kind) => {
                    self.warnings.add(kind);
                    Ok(())
                }
                None => Err(ApiError::invalid_value(format!("input[{index}].type"), "no such item is known here")),
            },
        }
    }

    fn add_message_item(&mut self, item: &InputItem<'b>, index: usize) -> Result<(), ApiError> {
        let place = || format!("input[{index}].content");
        let content = item.content.ok_or_else(|| ApiError::invalid_type(place(), "a string or an array of parts"))?;
        let content = parse_content(content, place)?;
        let role = item.role.map(JsonString::text);
        match role.as_deref() {
            Some("assistant") => {
                let turn = self.assistant_turn(index);
                turn.content = Some(match (turn.content.take(), content) {
                    (None, content) => content,
                    (Some(said), more) => {
                        // Added in place: a turn may have very many.
                        let mut parts = into_parts(said);
                        parts.extend(into_parts(more));
                        MessageContent::Parts(parts)
                    }
                });
            }
            Some("system" | "developer") if !self.messages.has_messages() && plain_texts(&content).is_some() => {
                if self.instructions.is_empty() {
                    self.instructed_at = MessageSource::Item(index);
                }
                self.instructions.extend(plain_texts(&content).into_iter().flatten());
            }
            Some("system" | "developer") => self.add_message("system", content, MessageSource::Item(index)),
            Some("user") => self.add_message("user", content, MessageSource::Item(index)),
            _ => {
                return Err(ApiError::invalid_value(
                    format!("input[{index}].role"),
                    "only \"user\", \"assistant\", \"system\" and \"developer\" are taken",
                ));
            }
        }
        Ok(())
    }

    fn add_call(&mut self, item: &InputItem<'b>, arguments: ChatText<'b>, index: usize) -> Result<(), ApiError> {
        let id = item.call_id.ok_or_else(|| invalid(index, ".call_id", "a string"))?;
        let name = item.name.ok_or_else(|| invalid(index, ".name", "a string"))?;
        let namespace = item.namespace.map(JsonString::text);
        let name = function_name(namespace.as_deref(), &name.text());
        // A tool without parameters may be called with an empty string, which is not JSON.
        let arguments = if arguments.is_empty() { CallArguments::Json(None) } else { CallArguments::Text(arguments) };
        self.assistant_turn(index).tool_calls.push(AssistantToolCall::new(
            id,
            ChatText::Written(name.into()),
            arguments,
        ));
        Ok(())
    }

    fn add_output(&mut self, item: &InputItem<'b>, index: usize) -> Result<(), ApiError> {
        let place = || format!("input[{index}].output");
        let id = item.call_id.ok_or_else(|| invalid(index, ".call_id", "a string"))?;
        let output = item.output.ok_or_else(|| ApiError::invalid_type(place(), "a string or an array of parts"))?;
        let content = match parse_content(output, place)? {
            MessageContent::Text(text) => MessageContent::Text(text),
            MessageContent::Parts(parts) => {
                let (mut texts, images): (Vec<_>, Vec<_>) =
                    parts.into_iter().partition(|part| matches!(part, ChatPart::Text { .. }));
                self.images.extend(images);
                match (texts.pop(), texts.is_empty()) {
                    (Some(ChatPart::Text { text }), true) => MessageContent::Text(text),
                    (None, _) => MessageContent::Text(ChatText::Written("".into())),
                    (Some(last), _) => {
                        texts.push(last);
                        MessageContent::Parts(texts)
                    }
                }
            }
        };
        self.messages.push(ChatMessage { tool_call_id: Some(id), ..ChatMessage::new("tool", content) });
        self.places.push(MessageSource::Item(index));
        Ok(())
    }

    /// Keeps the model's thoughts for the next message: the full text if present, otherwise the summary.
    /// `encrypted_content` can only be read by its author.
    fn add_thoughts(&mut self, item: &InputItem<'b>, index: usize) -> Result<(), ApiError> {
        for (name, value) in [("content", item.content), ("summary", item.summary)] {
            let Some(value) = value else { continue };
            let content = parse_content(value, || format!("input[{index}].{name}"))?;
            let texts: Vec<_> = into_parts(content)
                .iter()
                .filter_map(
                    |part| if let ChatPart::Text { text } = part { Some(text.text().into_owned()) } else { None },
                )
                .collect();
            let text = texts.join(PARAGRAPH);
            if !text.is_empty() {
                self.thoughts.get_or_insert_default().push_str(&text);
                break;
            }
        }
        Ok(())
    }

    /// Returns the message of the model's turn, which lasts until another role follows.
    fn assistant_turn(&mut self, index: usize) -> &mut ChatMessage<'b> {
        let thoughts = self.thoughts.take();
        let (turn, is_new) = self.messages.last_of("assistant");
        if is_new {
            self.places.push(MessageSource::Item(index));
        }
        if let Some(thoughts) = thoughts {
            turn.reasoning_content = Some(match turn.reasoning_content.take() {
                Some(ChatText::Written(before)) => {
                    // Added in place: a turn may have very many.
                    let mut all = before.into_owned();
                    all.push_str(&thoughts);
                    ChatText::Written(all.into())
                }
                _ => ChatText::Written(thoughts.into()),
            });
        }
        turn
    }

    fn add_message(&mut self, role: &'static str, content: MessageContent<'b>, place: MessageSource) {
        // Drops thoughts that no message of the model followed.
        self.thoughts = None;
        self.messages.push(ChatMessage::new(role, content));
        self.places.push(place);
    }

    /// Adds the images returned by tools, after the last tool message.
    fn show_images(&mut self) {
        if !self.images.is_empty() {
            let images = mem::take(&mut self.images);
            let place = self.places.last().copied().unwrap_or(MessageSource::Input);
            self.add_message("user", MessageContent::Parts(images), place);
        }
    }

    pub(super) fn finish(mut self) -> (ChatWriter<'b>, Vec<MessageSource>) {
        self.show_images();
        let content = match &*self.instructions {
            [] => None,
            [text] => Some(ChatText::AsSent(*text)),
            texts => {
                Some(ChatText::Written(texts.iter().map(|text| text.text()).collect::<Vec<_>>().join(PARAGRAPH).into()))
            }
        };
        if let Some(content) = content {
            self.messages.insert_first(&ChatMessage::new("system", MessageContent::Text(content)));
            self.places.insert(0, self.instructed_at);
        }
        (self.messages, self.places)
    }
}

/// Returns our own static name for an item of a tool that runs at `OpenAI` or that chat completions cannot express.
fn left_out_item(kind: &str) -> Option<&'static str> {
    const ITEMS: [&str; 20] = [
        "apply_patch_call",
        "apply_patch_call_output",
        "code_interpreter_call",
        "computer_call",
        "computer_call_output",
        "configuration_update",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output",
    ];
    if kind == "web_search_call" {
        return Some("web_search_call");
    }
    ITEMS.into_iter().find(|known| *known == kind)
}

fn invalid(index: usize, field: &str, expected: &str) -> ApiError {
    ApiError::invalid_type(format!("input[{index}]{field}"), expected)
}
