//! Rewrites the messages of a request for a provider.

use std::borrow::Cow;

use config::gateway::{MessageRules, ProviderQuirks, ReasoningForm, UnsupportedConstruct};

use super::{
    LEFT_OUT_OF_MESSAGES, call_ids, characters, inner, is_one_of, json,
    object::{ObjectWriter, TextSink, separate_element},
    parts::{self, PartKind},
    quoted,
};

/// The fields with a model's thoughts, starting with the gateway's own name.
const THOUGHTS: [&str; 2] = ["reasoning_content", "reasoning"];

/// Writes the messages of a request, an array, in the form that a provider with these quirks accepts.
pub fn write_messages(messages: &[u8], quirks: &ProviderQuirks, out: &mut impl TextSink) {
    out.push(b'[');
    let start = out.len();
    // If all turns are empty they are sent, and the provider reports what is wrong with them.
    for drops_silent in [quirks.is_unsupported(UnsupportedConstruct::EmptyTurns), false] {
        let mut writer = MessageWriter { quirks, drops_silent, start, previous: None, is_unfinished: false, out };
        for message in json::array_elements(messages).into_iter().flatten() {
            writer.write(&ParsedMessage::read(message));
        }
        writer.finish();
        if out.len() > start {
            break;
        }
    }
    out.push(b']');
}

/// The fields of a message that determine how it is written.
struct ParsedMessage<'t> {
    text: &'t [u8],
    role: Cow<'t, str>,
    /// The content: a string, or an array of parts.
    content: Option<&'t [u8]>,
    /// The model's refusal, a non-empty string.
    refusal: Option<&'t [u8]>,
    /// The model's thoughts, a non-empty string.
    thoughts: Option<&'t [u8]>,
    has_calls: bool,
}

impl<'t> ParsedMessage<'t> {
    fn read(text: &'t [u8]) -> Self {
        let (mut role, mut content, mut refusal, mut thoughts, mut has_calls) = (&b""[..], None, None, None, false);
        for field in json::fields(text).filter_map(Result::ok) {
            let Some(value) = text.get(field.value.clone()).filter(|value| *value != b"null") else { continue };
            match &*field.name() {
                b"role" => role = value,
                b"content" => content = Some(value),
                b"refusal" => refusal = inner(value).map(|_| value),
                b"tool_calls" => {
                    has_calls = json::array_elements(value).is_some_and(|mut calls| calls.next().is_some());
                }
                name if is_one_of(name, &THOUGHTS) => {
                    let is_first = name == THOUGHTS[0].as_bytes() || thoughts.is_none();
                    thoughts = inner(value).map(|_| value).filter(|_| is_first).or(thoughts);
                }
                _ => {}
            }
        }
        Self { text, role: characters(role), content, refusal, thoughts, has_calls }
    }

    fn is_assistant(&self) -> bool {
        self.role == "assistant"
    }
}

struct MessageWriter<'a, T> {
    quirks: &'a ProviderQuirks,
    /// Whether empty turns of the assistant are dropped.
    drops_silent: bool,
    start: usize,
    /// The role of the previous message as written.
    previous: Option<Cow<'a, str>>,
    /// Whether the previous message is from the assistant and, if it is the last, must be marked as to be continued.
    is_unfinished: bool,
    out: &'a mut T,
}

impl<'a, T: TextSink> MessageWriter<'a, T> {
    fn write(&mut self, message: &ParsedMessage<'a>) {
        let (quirks, rules) = (self.quirks, &self.quirks.messages);
        let taken = match rules.roles.get(&*message.role) {
            Some(taken) => Cow::Borrowed(taken.as_str()),
            None => message.role.clone(),
        };
        let listed = rules.fields.get(&*taken);
        let is_taken = |name: &[u8]| listed.is_none_or(|listed| listed.iter().any(|field| field.as_bytes() == name));
        // The refusal becomes the content if the provider has no field for it.
        let refusal = message
            .refusal
            .filter(|_| quirks.is_unsupported(UnsupportedConstruct::RefusalParts) && !is_taken(b"refusal"));
        let has_words = message.content.is_some_and(|content| has_words(content, quirks));
        let content = if has_words { message.content } else { refusal.or(message.content) };
        let thoughts = message.thoughts.filter(|_| message.is_assistant() && rules.thoughts == ReasoningForm::Parts);
        let says_something = has_words || refusal.is_some() || thoughts.is_some() || message.has_calls;
        if self.drops_silent && message.is_assistant() && !says_something {
            return;
        }

        let role = self.place(taken);
        separate_element(self.out, self.start);
        let mut object = ObjectWriter::open(self.out);
        let (mut has_content, mut has_thoughts, mut has_prefix) = (false, false, false);
        for field in json::fields(message.text).filter_map(Result::ok) {
            let name = field.name();
            let value = message.text.get(field.value.clone()).unwrap_or_default();
            let whole = message.text.get(field.whole.clone()).unwrap_or_default();
            if *name == *b"role" {
                if role == message.role {
                    object.copy(whole);
                } else {
                    object.field("role", quoted(&role).as_bytes());
                }
                continue;
            }
            if is_one_of(&name, &LEFT_OUT_OF_MESSAGES) || !is_taken(&name) {
                continue;
            }
            if *name == *b"content" {
                if content.is_some() || thoughts.is_some() {
                    write_content(content, thoughts, quirks, object.value("content"));
                    has_content = true;
                } else if !quirks.is_unsupported(UnsupportedConstruct::Nulls) {
                    object.copy(whole);
                }
                continue;
            }
            if value == b"null" && quirks.is_unsupported(UnsupportedConstruct::Nulls) {
                continue;
            }
            match &*name {
                b"tool_calls" if !message.has_calls && quirks.is_unsupported(UnsupportedConstruct::EmptyTools) => {}
                b"tool_calls" if message.is_assistant() && value.starts_with(b"[") => {
                    write_calls(value, quirks, object.value("tool_calls"));
                }
                b"tool_call_id" => object.field("tool_call_id", &call_ids::convert_call_id(value, rules.call_ids)),
                name if is_one_of(name, &THOUGHTS) && message.is_assistant() => match rules.thoughts {
                    ReasoningForm::AsSent => object.copy(whole),
                    // An empty one would duplicate the thoughts in parts.
                    ReasoningForm::Field if matches!(value, b"null" | b"\"\"") => {}
                    ReasoningForm::Field => {
                        has_thoughts |= inner(value).is_some();
                        object.copy(whole);
                    }
                    ReasoningForm::Drop | ReasoningForm::Parts => {}
                },
                name => {
                    has_prefix |= rules.prefix.as_ref().is_some_and(|prefix| prefix.as_bytes() == name);
                    object.copy(whole);
                }
            }
        }
        if !has_content && is_taken(b"content") && (refusal.is_some() || thoughts.is_some()) {
            write_content(content, thoughts, quirks, object.value("content"));
        }
        if rules.thoughts == ReasoningForm::Field && message.is_assistant() && !has_thoughts {
            write_thoughts_field(message, &mut object);
        }
        object.close();
        self.is_unfinished = role == "assistant" && !message.has_calls && !has_prefix;
        self.previous = Some(role);
    }

    /// Marks the last message as to be continued if it is from the assistant.
    fn finish(self) {
        if let Some(prefix) = self.quirks.messages.prefix.as_ref().filter(|_| self.is_unfinished) {
            self.out.pop();
            self.out.extend_from_slice(format!(",\"{prefix}\":true}}").as_bytes());
        }
    }

    /// Returns the role to write for the next message, which has `role` in the conversation. First writes the filler
    /// turn that the provider's role order requires.
    fn place(&mut self, role: Cow<'a, str>) -> Cow<'a, str> {
        let rules: &'a MessageRules = &self.quirks.messages;
        let Some(previous) = self.previous.as_deref() else { return role };
        let follows = |before: &str, next: &str| {
            rules.follow.get(before).is_none_or(|following| following.iter().any(|role| role == next))
        };
        // Instructions within a conversation become the user's if the provider does not allow them there.
        let others = (role == "system").then_some(Cow::Borrowed("user"));
        for candidate in [role.clone()].into_iter().chain(others) {
            if follows(previous, &candidate) {
                return candidate;
            }
            if !rules.filler.is_empty() && follows(previous, "assistant") && follows("assistant", &candidate) {
                separate_element(self.out, self.start);
                let mut object = ObjectWriter::open(self.out);
                object.field("role", b"\"assistant\"");
                object.field("content", quoted(&rules.filler).as_bytes());
                object.close();
                return candidate;
            }
        }
        role
    }
}

fn has_words(content: &[u8], quirks: &ProviderQuirks) -> bool {
    match json::array_elements(content) {
        Some(mut all) => all.any(|part| !parts::is_left_out(part, quirks)),
        None => content != b"\"\"",
    }
}

/// Writes a content, a string or parts, after the thoughts that become a part of it.
fn write_content(content: Option<&[u8]>, thoughts: Option<&[u8]>, quirks: &ProviderQuirks, out: &mut impl TextSink) {
    let content = content.unwrap_or(b"\"\"");
    match thoughts {
        _ if content.starts_with(b"[") => parts::write_parts(content, thoughts, quirks, out),
        None => out.extend_from_slice(content),
        Some(thoughts) => {
            out.push(b'[');
            parts::write_thinking(thoughts, out);
            if inner(content).is_some() {
                out.push(b',');
                parts::write_text(content, out);
            }
            out.push(b']');
        }
    }
}

fn write_thoughts_field(message: &ParsedMessage<'_>, object: &mut ObjectWriter<'_, impl TextSink>) {
    let parts = || message.content.and_then(json::array_elements).into_iter().flatten();
    let thoughts = || {
        parts().filter_map(
            |part| if let PartKind::Thinking(thoughts) = PartKind::parse(part) { Some(thoughts) } else { None },
        )
    };
    if thoughts().any(parts::has_thoughts) {
        let value = object.value(THOUGHTS[0]);
        value.push(b'"');
        thoughts().for_each(|thoughts| parts::append_thoughts(thoughts, value));
        value.push(b'"');
    }
}

fn write_calls(calls: &[u8], quirks: &ProviderQuirks, out: &mut impl TextSink) {
    let rules = &quirks.messages;
    let is_listed =
        |name: &[u8]| rules.call_fields.is_empty() || rules.call_fields.iter().any(|field| field.as_bytes() == name);
    out.push(b'[');
    let start = out.len();
    for call in json::array_elements(calls).into_iter().flatten() {
        separate_element(out, start);
        if !call.starts_with(b"{") {
            out.extend_from_slice(call);
            continue;
        }
        let mut object = ObjectWriter::open(out);
        for field in json::fields(call).filter_map(Result::ok) {
            let (name, value) = (field.name(), call.get(field.value.clone()).unwrap_or_default());
            if !is_listed(&name) || (value == b"null" && quirks.is_unsupported(UnsupportedConstruct::Nulls)) {
                continue;
            }
            match &*name {
                b"id" => object.field("id", &call_ids::convert_call_id(value, rules.call_ids)),
                b"function" if !rules.call_fields.is_empty() && value.starts_with(b"{") => {
                    let mut function = ObjectWriter::open(object.value("function"));
                    for field in json::fields(value).filter_map(Result::ok) {
                        if is_one_of(&field.name(), &["name", "arguments"]) {
                            function.copy(value.get(field.whole).unwrap_or_default());
                        }
                    }
                    function.close();
                }
                _ => object.copy(call.get(field.whole).unwrap_or_default()),
            }
        }
        object.close();
    }
    out.push(b']');
}
