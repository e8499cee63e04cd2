//! The parts of a message's content: rewrites them for a provider, and extracts the model's thoughts.

use config::gateway::{ProviderQuirks, ReasoningForm, UnsupportedConstruct};

use super::{
    LEFT_OUT_OF_IMAGES, LEFT_OUT_OF_PARTS, inner, is_one_of, json,
    object::{ObjectWriter, TextSink, separate_element},
};

#[derive(Clone, Copy)]
pub(super) enum PartKind<'t> {
    /// Words, as a JSON string.
    Text(&'t [u8]),
    /// A model's thoughts: a JSON string, or an array of parts.
    Thinking(&'t [u8]),
    /// A model's refusal, as a JSON string.
    Refusal(&'t [u8]),
    Other,
}

impl<'t> PartKind<'t> {
    pub(super) fn parse(part: &'t [u8]) -> Self {
        if part.starts_with(b"\"") {
            return Self::Text(part);
        }
        let (mut kind, mut text, mut thinking, mut refusal) = (&b""[..], None, None, None);
        for field in json::fields(part).filter_map(Result::ok) {
            let value = part.get(field.value.clone()).filter(|value| *value != b"null");
            match &*field.name() {
                b"type" => kind = value.unwrap_or_default(),
                b"text" => text = value,
                b"thinking" => thinking = value,
                b"refusal" => refusal = value,
                _ => {}
            }
        }
        match (&*json::decode_string_or_empty(kind), text) {
            (b"text", Some(text)) => Self::Text(text),
            (b"thinking", _) => Self::Thinking(thinking.unwrap_or(b"\"\"")),
            (b"refusal", _) => Self::Refusal(refusal.unwrap_or(b"\"\"")),
            _ => Self::Other,
        }
    }
}

pub(super) fn is_left_out(part: &[u8], quirks: &ProviderQuirks) -> bool {
    matches!(quirks.messages.thoughts, ReasoningForm::Drop | ReasoningForm::Field)
        && matches!(PartKind::parse(part), PartKind::Thinking(_))
}

/// Writes the parts of `array` after a part with `thoughts`, if any. Without any parts, writes an empty string.
pub(super) fn write_parts(array: &[u8], thoughts: Option<&[u8]>, quirks: &ProviderQuirks, out: &mut impl TextSink) {
    out.push(b'[');
    let start = out.len();
    if let Some(thoughts) = thoughts {
        write_thinking(thoughts, out);
    }
    for part in json::array_elements(array).into_iter().flatten().filter(|part| !is_left_out(part, quirks)) {
        separate_element(out, start);
        match PartKind::parse(part) {
            PartKind::Refusal(refusal) if quirks.is_unsupported(UnsupportedConstruct::RefusalParts) => {
                write_text(refusal, out);
            }
            _ => write_part(part, quirks, out),
        }
    }
    if out.len() == start {
        out.pop();
        out.extend_from_slice(b"\"\"");
    } else {
        out.push(b']');
    }
}

pub(super) fn write_text(words: &[u8], out: &mut impl TextSink) {
    let mut part = ObjectWriter::open(out);
    part.field("type", b"\"text\"");
    part.field("text", words);
    part.close();
}

pub(super) fn write_thinking(thoughts: &[u8], out: &mut impl TextSink) {
    let mut part = ObjectWriter::open(out);
    part.field("type", b"\"thinking\"");
    let value = part.value("thinking");
    value.push(b'[');
    write_text(thoughts, value);
    value.push(b']');
    part.close();
}

fn write_part(part: &[u8], quirks: &ProviderQuirks, out: &mut impl TextSink) {
    let has_nulls = !quirks.is_unsupported(UnsupportedConstruct::Nulls);
    let mut object = ObjectWriter::open(out);
    for field in json::fields(part).filter_map(Result::ok) {
        let (name, value) = (field.name(), part.get(field.value.clone()).unwrap_or_default());
        if is_one_of(&name, &LEFT_OUT_OF_PARTS) || (value == b"null" && !has_nulls) {
            continue;
        }
        if *name == *b"image_url" && value.starts_with(b"{") {
            let mut image = ObjectWriter::open(object.value("image_url"));
            for field in json::fields(value).filter_map(Result::ok) {
                let is_null = value.get(field.value.clone()) == Some(b"null");
                if !is_one_of(&field.name(), &LEFT_OUT_OF_IMAGES) && (has_nulls || !is_null) {
                    image.copy(value.get(field.whole).unwrap_or_default());
                }
            }
            image.close();
        } else {
            object.copy(part.get(field.whole).unwrap_or_default());
        }
    }
    object.close();
}

/// Returns whether thoughts, a JSON string or an array of text parts, are not empty.
pub(super) fn has_thoughts(thoughts: &[u8]) -> bool {
    inner(thoughts).is_some()
        || json::array_elements(thoughts)
            .into_iter()
            .flatten()
            .any(|part| matches!(PartKind::parse(part), PartKind::Text(text) if inner(text).is_some()))
}

/// Appends thoughts, a JSON string or an array of text parts, to a JSON string under construction.
pub(super) fn append_thoughts(thoughts: &[u8], out: &mut impl TextSink) {
    if let Some(words) = inner(thoughts) {
        out.extend_from_slice(words);
    }
    for part in json::array_elements(thoughts).into_iter().flatten() {
        if let PartKind::Text(text) = PartKind::parse(part) {
            out.extend_from_slice(inner(text).unwrap_or_default());
        }
    }
}
