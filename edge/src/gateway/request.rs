//! A request for a completion: judged, and brought into the form in which its provider gets it.
//!
//! Fields that the gateway has nothing to say about stay where they are, byte by byte. Of the others, when one is there
//! twice, the last counts, as it does for the providers; it is judged, and it alone is sent.

use std::{borrow::Cow, ops::RangeInclusive, sync::Arc};

use bytes::Bytes;
use config::models::{Access, MAX_TOKENS};
use memchr::memmem;

use super::{
    catalog::{Catalog, Served},
    json,
    meter::Reserve,
    refusal::Refusal,
};
use crate::limits;

/// A request that can be sent.
pub(super) struct Completion {
    /// The model it is for.
    pub(super) served: Arc<Served>,
    /// Whether the answer is wanted as it grows.
    pub(super) is_stream: bool,
    /// What it can cost at most.
    pub(super) reserve: Reserve,
    /// Tokens that its prompt likely has, when nobody says.
    pub(super) likely_prompt: u64,
    /// What the provider gets.
    pub(super) body: Bytes,
}

/// Fields that the gateway has something to say about.
const GOVERNED: [&[u8]; 7] =
    [b"model", b"max_tokens", b"max_completion_tokens", b"n", b"stream", b"stream_options", b"store"];

/// Judges the body of a request.
pub(super) fn judge(body: &Bytes, catalog: &Catalog) -> Result<Completion, Refusal> {
    let given = Given::read(body)?;
    let model = given.last(b"model").ok_or_else(|| Refusal::missing("model"))?;
    let model: String = serde_json::from_slice(model).map_err(|_| Refusal::wrong_type("model", "a string"))?;
    let served = catalog.find(&model).ok_or_else(|| Refusal::unknown_model(&model))?;
    judge_messages(given.last(b"messages"))?;
    let max_tokens = given.integer("max_tokens", 1..=MAX_TOKENS)?;
    let max_completion_tokens = given.integer("max_completion_tokens", 1..=MAX_TOKENS)?;
    let choices = given.integer("n", 1..=limits::CHOICES)?.unwrap_or(1);
    let is_stream = match given.last(b"stream") {
        Some(b"true") => true,
        None | Some(b"false" | b"null") => false,
        Some(_) => return Err(Refusal::wrong_type("stream", "a boolean")),
    };
    if given.last(b"stream_options").is_some_and(|value| !value.starts_with(b"{") && value != b"null") {
        return Err(Refusal::wrong_type("stream_options", "an object"));
    }
    if matches!(served.model.provider.access, Access::Missing(_)) {
        return Err(Refusal::model_unavailable(&served.model.id));
    }

    let most = max_tokens.max(max_completion_tokens);
    let reserve =
        Reserve { prompt: worst_prompt(body), completion: most.unwrap_or(MAX_TOKENS).saturating_mul(choices) };
    let writer = Writer { given: &given, served, out: Vec::with_capacity(body.len() + limits::ADDED_BYTES) };
    Ok(Completion {
        served: served.clone(),
        is_stream,
        reserve,
        likely_prompt: likely_tokens(body.len()),
        body: writer.write(is_stream, most.is_none()),
    })
}

/// Tokens that a text of so many bytes has, usually.
pub(super) fn likely_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(limits::BYTES_PER_TOKEN)
}

/// Tokens that a prompt can have: hardly any text has more than one in three bytes; an image that is only named may
/// have many.
fn worst_prompt(body: &[u8]) -> u64 {
    // Each is named twice, as the type of a part and as the part's field.
    let images = memmem::find_iter(body, b"\"image_url\"").count().div_ceil(2) as u64;
    (body.len() as u64).div_ceil(3) + images * limits::IMAGE_TOKENS
}

fn judge_messages(messages: Option<&[u8]>) -> Result<(), Refusal> {
    let messages = messages.ok_or_else(|| Refusal::missing("messages"))?;
    let messages = json::elements(messages).ok_or_else(|| Refusal::wrong_type("messages", "an array of messages"))?;
    let mut count = 0;
    for (index, message) in messages.enumerate() {
        count += 1;
        let mut role = None;
        for field in json::fields(message) {
            let field = field.map_err(|_| Refusal::wrong_type(format!("messages[{index}]"), "an object"))?;
            if &*field.name() == b"role" {
                role = message.get(field.value);
            }
        }
        if role.is_none_or(|role| !role.starts_with(b"\"") || role == b"\"\"") {
            return Err(Refusal::wrong_type(format!("messages[{index}].role"), "a string such as \"user\""));
        }
    }
    if count == 0 {
        return Err(Refusal::invalid_value("messages", "it is empty, at least one message is needed"));
    }
    Ok(())
}

/// The fields of a request, as they stand there.
struct Given<'t>(Vec<Field<'t>>);

struct Field<'t> {
    name: Cow<'t, [u8]>,
    whole: &'t [u8],
    value: &'t [u8],
}

impl<'t> Given<'t> {
    fn read(body: &'t [u8]) -> Result<Self, Refusal> {
        let text = std::str::from_utf8(body).map_err(|_| Refusal::invalid_json("it is not UTF-8"))?;
        serde_json::from_str::<serde::de::IgnoredAny>(text)
            .map_err(|error| Refusal::invalid_json(&error.to_string()))?;
        let fields = json::fields(body).map(|field| {
            let field = field.map_err(|_| Refusal::invalid_json("it is not an object, or nested too deeply"))?;
            let part = |range| body.get(range).unwrap_or_default();
            Ok(Field { name: field.name(), whole: part(field.whole), value: part(field.value) })
        });
        fields.collect::<Result<_, _>>().map(Self)
    }

    fn last(&self, name: &[u8]) -> Option<&'t [u8]> {
        self.0.iter().rfind(|field| *field.name == *name).map(|field| field.value)
    }

    fn integer(&self, name: &'static str, range: RangeInclusive<u64>) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.last(name.as_bytes()).filter(|value| *value != b"null") else { return Ok(None) };
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        let number = number.filter(|number| range.contains(number)).ok_or_else(|| {
            let rule = format!("expected an integer from {} to {}", range.start(), range.end());
            Refusal::invalid_value(name, &rule)
        })?;
        Ok(Some(number))
    }
}

/// Writes what the provider gets.
struct Writer<'a> {
    given: &'a Given<'a>,
    served: &'a Served,
    out: Vec<u8>,
}

impl Writer<'_> {
    fn write(mut self, is_stream: bool, needs_maximum: bool) -> Bytes {
        self.out.push(b'{');
        for (index, field) in self.given.0.iter().enumerate() {
            let name = &*field.name;
            if !GOVERNED.contains(&name) {
                self.put(name, field.whole, field.value);
                continue;
            }
            let later = self.given.0.get(index + 1..).unwrap_or_default();
            if later.iter().any(|later| later.name == field.name) {
                continue;
            }
            match name {
                b"model" => self.put_anew(name, self.served.upstream_json.as_bytes()),
                b"store" => self.put_anew(name, b"false"),
                b"stream_options" if is_stream => self.put_anew(name, &with_usage(field.value)),
                // A null says nothing, and the ceiling takes its place.
                b"max_tokens" | b"max_completion_tokens" if field.value == b"null" => {}
                _ => self.put(name, field.whole, field.value),
            }
        }
        if needs_maximum {
            self.put_anew(b"max_tokens", MAX_TOKENS.to_string().as_bytes());
        }
        if is_stream && self.given.last(b"stream_options").is_none() {
            self.put_anew(b"stream_options", &with_usage(b"null"));
        }
        self.out.push(b'}');
        self.out.into()
    }

    /// Writes a field as it stood, unless the provider has another name for it, or none.
    fn put(&mut self, name: &[u8], whole: &[u8], value: &[u8]) {
        let quirks = &self.served.model.provider.quirks;
        let is_plain = quirks.drop.is_empty() && quirks.rename.is_empty();
        if is_plain || !self.is_odd(name) {
            self.separate();
            self.out.extend_from_slice(whole);
        } else {
            self.put_anew(name, value);
        }
    }

    fn is_odd(&self, name: &[u8]) -> bool {
        let quirks = &self.served.model.provider.quirks;
        quirks.drop.iter().any(|odd| odd.as_bytes() == name) || quirks.rename.keys().any(|odd| odd.as_bytes() == name)
    }

    fn put_anew(&mut self, name: &[u8], value: &[u8]) {
        let quirks = &self.served.model.provider.quirks;
        if quirks.drop.iter().any(|dropped| dropped.as_bytes() == name) {
            return;
        }
        let theirs =
            quirks.rename.iter().find(|(ours, _)| ours.as_bytes() == name).map(|(_, theirs)| theirs.as_bytes());
        if theirs.is_some_and(|theirs| self.given.last(theirs).is_some_and(|value| value != b"null")) {
            return;
        }
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(theirs.unwrap_or(name));
        self.out.extend_from_slice(b"\":");
        self.out.extend_from_slice(value);
    }

    fn separate(&mut self) {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
    }
}

/// The stream's options with the report of usage asked for, whatever they said of it.
fn with_usage(options: &[u8]) -> Vec<u8> {
    let mut out = br#"{"include_usage":true"#.to_vec();
    for field in json::fields(options).filter_map(Result::ok).filter(|field| &*field.name() != b"include_usage") {
        out.push(b',');
        out.extend_from_slice(options.get(field.whole).unwrap_or_default());
    }
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests;
