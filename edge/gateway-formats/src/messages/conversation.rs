//! Translates the messages of a request to those of a chat completion.
//!
//! In chat completions, the system prompt is a message, and tool results are messages that precede the rest of the
//! user's turn. Images in results become the user's, because only users may send images.

use std::{borrow::Cow, collections::BTreeMap};

use gateway_request::error::ApiError;
use serde_json::value::RawValue;

use super::{
    super::chat::{
        AssistantToolCall, CallArguments, ChatMessage, ChatPart, ChatText, ChatWriter, ImageContent, ImageUrl,
        JsonString, MessageContent,
    },
    for_each, parse,
    request::{self, BlockSource, DecodedStr, InputBlock, InputTool},
};

/// The prefix of billing data that an agent adds to the system prompt for its own provider, and models need not read.
const BILLING: &str = "x-anthropic-billing-header:";

const BETWEEN: &str = "\n\n";

pub(super) struct ChatConversation<'a> {
    system: Vec<ChatText<'a>>,
    messages: ChatWriter<'a>,
    has_answered: bool,
    changes: ToolChanges<'a>,
    /// The path of the first image.
    pub(super) first_image: Option<String>,
}

/// Changes to the tools made in messages.
#[derive(Default)]
pub(super) struct ToolChanges<'a> {
    /// Whether each named tool is available, according to the last message about it.
    named: BTreeMap<String, bool>,
    pub(super) defined: Vec<InputTool<'a>>,
}

impl ToolChanges<'_> {
    /// Returns whether the model sees the tool with this name, whose definition may be deferred.
    pub(super) fn is_shown(&self, name: &str, is_deferred: bool) -> bool {
        self.named.get(name).copied().unwrap_or(!is_deferred)
    }
}

/// The parts of a result or user message, and the path of the first image in them.
#[derive(Default)]
struct ContentParts<'a>(Vec<ChatPart<'a>>, Option<String>);

impl<'a> ChatConversation<'a> {
    /// Starts from the field `system`: a string, or text blocks.
    pub(super) fn new(messages: ChatWriter<'a>, system: Option<&'a RawValue>) -> Result<Self, ApiError> {
        let mut conversation = Self {
            system: Vec::new(),
            messages,
            has_answered: false,
            changes: ToolChanges::default(),
            first_image: None,
        };
        if let Some(system) = system {
            conversation.system = conversation.system_texts(system, "system")?;
        }
        Ok(conversation)
    }

    pub(super) fn add(&mut self, index: usize, message: &request::InputMessage<'a>) -> Result<(), ApiError> {
        let place = format!("messages.{index}.content");
        match &*message.role {
            "user" => self.add_user(message.content, &place),
            "assistant" => self.add_assistant(message.content, &place),
            "system" => self.add_system(message.content, &place),
            _ => {
                let rule = "expected \"user\", \"assistant\" or \"system\"";
                Err(ApiError::invalid_value(format!("messages.{index}.role"), rule))
            }
        }
    }

    /// Returns the messages, starting with the system prompt, and the changes to tools.
    pub(super) fn into_messages(self) -> (ChatWriter<'a>, ToolChanges<'a>) {
        let Self { system, mut messages, changes, .. } = self;
        if !system.is_empty() {
            messages.insert_first(&ChatMessage::new("system", MessageContent::Text(join_texts(system))));
        }
        (messages, changes)
    }

    /// Adds a system message in the conversation. Before the model's first turn it becomes part of the system prompt.
    /// Later, it is sent as a user message, because many chat templates accept no system message there.
    fn add_system(&mut self, content: &'a RawValue, place: &str) -> Result<(), ApiError> {
        let texts = self.system_texts(content, place)?;
        if !self.has_answered {
            self.system.extend(texts);
        } else if !texts.is_empty() {
            let text = format!("<system-reminder>\n{}\n</system-reminder>", decode_text(&join_texts(texts)));
            self.messages.push(ChatMessage::new("user", MessageContent::Text(ChatText::Written(text.into()))));
        }
        Ok(())
    }

    fn system_texts(&mut self, content: &'a RawValue, place: &str) -> Result<Vec<ChatText<'a>>, ApiError> {
        let is_for_model = |text: &JsonString<'_>| !text.escaped().starts_with(BILLING);
        let mut texts = Vec::new();
        for_each_block(content, place, |index, block| {
            match &*block.kind {
                "text" => {
                    let text = Some(block_text(&block, place, index)?).filter(|text| is_for_model(text));
                    texts.extend(text.map(ChatText::AsSent));
                }
                "tool_addition" | "tool_removal" => self.change_tools(block),
                _ => return Err(unsupported_block(&block, place, index)),
            }
            Ok(())
        })?;
        Ok(texts)
    }

    fn change_tools(&mut self, block: InputBlock<'a>) {
        let is_added = block.kind == "tool_addition";
        let Some(change) = block.tool else { return };
        let name =
            change.name.or_else(|| change.definition.as_ref()?.name.as_ref().map(|name| DecodedStr(name.0.clone())));
        if let Some(name) = name {
            self.changes.named.insert(name.0.into_owned(), is_added);
        }
        self.changes.defined.extend(change.definition.map(|definition| *definition).filter(|_| is_added));
    }

    fn add_user(&mut self, content: &'a RawValue, place: &str) -> Result<(), ApiError> {
        let (mut said, mut shown) = (ContentParts::default(), ContentParts::default());
        let (mut is_empty, mut is_silent) = (true, true);
        for_each_block(content, place, |index, block| {
            is_empty = false;
            match &*block.kind {
                "tool_result" => self.add_result(&block, &mut shown, &format!("{place}.{index}"))?,
                "tool_addition" | "tool_removal" => self.change_tools(block),
                _ => {
                    is_silent = false;
                    said.add(&block, place, index)?;
                }
            }
            Ok(())
        })?;
        shown.0.append(&mut said.0);
        self.first_image = self.first_image.take().or(shown.1.take()).or(said.1.take());
        // Results alone are messages already.
        if is_empty || !is_silent || !shown.0.is_empty() {
            self.messages.push(ChatMessage::new("user", shown.into_content()));
        }
        Ok(())
    }

    /// Adds the result of a tool, and moves its images to `shown`.
    fn add_result(
        &mut self,
        block: &InputBlock<'a>,
        shown: &mut ContentParts<'a>,
        place: &str,
    ) -> Result<(), ApiError> {
        let id = require_string(block.tool_use_id, || format!("{place}.tool_use_id"))?;
        let mut parts = ContentParts::default();
        if let Some(content) = block.content {
            let place = format!("{place}.content");
            for_each_block(content, &place, |index, block| {
                match (&*block.kind, &block.tool_name) {
                    ("tool_reference", Some(name)) => {
                        parts.push(format!("The tool `{}` is available now.", &**name).into());
                        self.changes.named.insert(name.to_string(), true);
                    }
                    _ => parts.add(&block, &place, index)?,
                }
                Ok(())
            })?;
        }
        shown.1 = shown.1.take().or(parts.1.take());
        let is_image = |part: &ChatPart<'_>| matches!(part, ChatPart::ImageUrl { .. });
        let (images, texts): (Vec<_>, Vec<_>) = parts.0.into_iter().partition(is_image);
        if !images.is_empty() {
            let text = format!("What the call {} shows:", decode_text(&ChatText::AsSent(id)));
            shown.push(text.into());
            shown.0.extend(images);
        }
        let texts = texts.into_iter().filter_map(|part| match part {
            ChatPart::Text { text } => Some(text),
            ChatPart::ImageUrl { .. } => None,
        });
        let mut text = join_texts(texts.collect());
        if block.is_error == Some(true) {
            text = ChatText::Written(format!("Error: {}", decode_text(&text)).into());
        }
        let message = ChatMessage { tool_call_id: Some(id), ..ChatMessage::new("tool", MessageContent::Text(text)) };
        self.messages.push(message);
        Ok(())
    }

    fn add_assistant(&mut self, content: &'a RawValue, place: &str) -> Result<(), ApiError> {
        self.has_answered = true;
        let (mut texts, mut thoughts, mut tool_calls) = (Vec::new(), Vec::new(), Vec::new());
        for_each_block(content, place, |index, block| {
            match &*block.kind {
                "text" => texts.push(ChatText::AsSent(block_text(&block, place, index)?)),
                // The model should read the text, whatever its signature.
                "thinking" => {
                    let text = block.thinking.and_then(JsonString::from_raw).filter(|text| !text.escaped().is_empty());
                    thoughts.extend(text.map(ChatText::AsSent));
                }
                // Only Anthropic can decrypt it.
                "redacted_thinking" => {}
                "tool_use" => {
                    let id = require_string(block.id, || format!("{place}.{index}.id"))?;
                    let name = require_string(block.name, || format!("{place}.{index}.name"))?;
                    tool_calls.push(AssistantToolCall::new(
                        id,
                        ChatText::AsSent(name),
                        CallArguments::Json(block.input),
                    ));
                }
                _ => return Err(unsupported_block(&block, place, index)),
            }
            Ok(())
        })?;
        let content = match (texts.is_empty(), tool_calls.is_empty()) {
            (true, false) => None,
            _ => Some(MessageContent::Text(join_texts(texts))),
        };
        let reasoning_content = (!thoughts.is_empty()).then(|| join_texts(thoughts));
        let role = "assistant";
        self.messages.push(ChatMessage { role, content, reasoning_content, tool_calls, ..ChatMessage::default() });
        Ok(())
    }
}

impl<'a> ContentParts<'a> {
    fn push(&mut self, text: Cow<'a, str>) {
        self.0.push(ChatPart::Text { text: ChatText::Written(text) });
    }

    fn add(&mut self, block: &InputBlock<'a>, place: &str, index: usize) -> Result<(), ApiError> {
        match &*block.kind {
            "text" => self.0.push(ChatPart::Text { text: ChatText::AsSent(block_text(block, place, index)?) }),
            "image" => self.add_image(block, place, index)?,
            "document" => self.add_document(block, place, index)?,
            "search_result" => {
                let source: Option<DecodedStr<'_>> = block.source.map(|source| parse(source.get())).transpose()?;
                let title = block.title.as_deref().unwrap_or_default();
                self.push(format!("{title}\n{}", source.as_deref().unwrap_or_default()).into());
                self.add_all(block.content, &format!("{place}.{index}.content"))?;
            }
            _ => return Err(unsupported_block(block, place, index)),
        }
        Ok(())
    }

    fn add_all(&mut self, content: Option<&'a RawValue>, place: &str) -> Result<(), ApiError> {
        let Some(content) = content else { return Ok(()) };
        for_each_block(content, place, |index, block| {
            match &*block.kind {
                "text" => self.0.push(ChatPart::Text { text: ChatText::AsSent(block_text(&block, place, index)?) }),
                "image" => self.add_image(&block, place, index)?,
                _ => return Err(unsupported_block(&block, place, index)),
            }
            Ok(())
        })
    }

    fn add_image(&mut self, block: &InputBlock<'a>, place: &str, index: usize) -> Result<(), ApiError> {
        let source = block_source(block, place, index)?;
        let url = match (&*source.kind, source.url.and_then(JsonString::from_raw), source.media_type, source.data) {
            ("url", Some(url), ..) => ImageUrl::Given(url),
            ("base64", _, Some(media_type), Some(data)) => ImageUrl::Inline { media_type: media_type.0, data: data.0 },
            ("url" | "base64", ..) => {
                let rule = "`base64` needs `media_type` and `data`, `url` needs `url`";
                return Err(ApiError::invalid_value(format!("{place}.{index}.source"), rule));
            }
            _ => {
                let rule = "only \"base64\" and \"url\" are taken: the gateway keeps no files";
                return Err(ApiError::invalid_value(format!("{place}.{index}.source.type"), rule));
            }
        };
        self.0.push(ChatPart::ImageUrl { image_url: ImageContent { url, detail: None }.into() });
        self.1.get_or_insert_with(|| format!("{place}.{index}"));
        Ok(())
    }

    /// Adds the text of a document, after its title and context.
    fn add_document(&mut self, block: &InputBlock<'a>, place: &str, index: usize) -> Result<(), ApiError> {
        let source = block_source(block, place, index)?;
        let is_text = source.media_type.as_deref().is_none_or(|media_type| media_type.starts_with("text/"));
        for about in [&block.title, &block.context].into_iter().flatten() {
            self.push(about.0.clone());
        }
        match (&*source.kind, source.data) {
            ("text", Some(data)) if is_text => self.push(data.0),
            ("content", _) => self.add_all(source.content, &format!("{place}.{index}.source.content"))?,
            _ => {
                let kind = source.media_type.map_or(source.kind, |media_type| media_type.0);
                let kind: String = kind.chars().take(limits::QUOTED_CHARS).collect();
                let rule = format!("a document of kind `{kind}` is not taken, only plain text is; send its text");
                return Err(ApiError::invalid_value(format!("{place}.{index}.source"), &rule));
            }
        }
        Ok(())
    }

    /// Returns the parts as a message's content: a string if they are a single text.
    fn into_content(mut self) -> MessageContent<'a> {
        match self.0.pop() {
            None => MessageContent::Text(join_texts(Vec::new())),
            Some(ChatPart::Text { text }) if self.0.is_empty() => MessageContent::Text(text),
            Some(last) => {
                self.0.push(last);
                MessageContent::Parts(self.0)
            }
        }
    }
}

/// Calls `each` with the blocks of a content; a string is a single text block.
fn for_each_block<'a>(
    content: &'a RawValue,
    place: &str,
    mut each: impl FnMut(usize, InputBlock<'a>) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    match content.get().as_bytes().first() {
        Some(b'"') => each(0, InputBlock::from_text(content)),
        Some(b'[') => for_each(content, each),
        _ => Err(ApiError::invalid_type(place.to_owned(), "a string or an array of blocks")),
    }
}

fn block_text<'a>(block: &InputBlock<'a>, place: &str, index: usize) -> Result<JsonString<'a>, ApiError> {
    require_string(block.text, || format!("{place}.{index}.text"))
}

fn block_source<'a>(block: &InputBlock<'a>, place: &str, index: usize) -> Result<BlockSource<'a>, ApiError> {
    let missing = || ApiError::invalid_value(format!("{place}.{index}.source"), "it is missing");
    parse(block.source.ok_or_else(missing)?.get())
}

fn require_string(field: Option<&RawValue>, place: impl FnOnce() -> String) -> Result<JsonString<'_>, ApiError> {
    field.and_then(JsonString::from_raw).ok_or_else(|| ApiError::invalid_type(place(), "a string"))
}

fn unsupported_block(block: &InputBlock<'_>, place: &str, index: usize) -> ApiError {
    let kind: String = block.kind.chars().take(limits::QUOTED_CHARS).collect();
    ApiError::invalid_value(format!("{place}.{index}.type"), &format!("a block of type `{kind}` is not taken here"))
}

fn join_texts(mut texts: Vec<ChatText<'_>>) -> ChatText<'_> {
    match texts.len() {
        0 => ChatText::Written("".into()),
        1 => texts.swap_remove(0),
        _ => ChatText::Written(texts.iter().map(decode_text).collect::<Vec<_>>().join(BETWEEN).into()),
    }
}

/// Decodes a text. A text with an unpaired surrogate stays as written.
fn decode_text<'t>(text: &'t ChatText<'_>) -> Cow<'t, str> {
    match text {
        ChatText::Written(text) => Cow::Borrowed(text),
        ChatText::AsSent(text) => {
            let raw = text.as_json().get();
            serde_json::from_str::<DecodedStr<'_>>(raw).map_or(Cow::Borrowed(raw), |text| text.0)
        }
    }
}
