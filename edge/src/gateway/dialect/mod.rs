//! The dialects of providers: requests rewritten to what a provider takes, and answers to `OpenAI`'s format.
//!
//! The rules are data, [`Quirks`](config::gateway::Quirks) of the provider's entry; nothing here knows a provider by name. Text is
//! rewritten in one pass over its bytes, and what no rule is about is copied as it stands. What a request may hold is judged in
//! `request`, before: here nothing is refused. Start with [`write_messages`] and [`flattened`].

mod answer;
mod call_ids;
mod messages;
mod object;
mod parts;
mod text;
mod tools;

use std::borrow::Cow;

pub(super) use self::{
    answer::flattened,
    messages::write_messages,
    object::Text,
    text::as_text,
    tools::{Choice, write_tools},
};
use super::json;

/// The fields that are left out of messages for every provider: what is stored has a price of its own.
pub(super) const LEFT_OUT_OF_MESSAGES: [&str; 1] = ["cache_control"];
/// The fields that are left out of content parts for every provider.
pub(super) const LEFT_OUT_OF_PARTS: [&str; 2] = ["annotations", "cache_control"];
/// The fields that are left out of images for every provider.
pub(super) const LEFT_OUT_OF_IMAGES: [&str; 1] = ["format"];
/// The fields that are left out of tools for every provider. `strict` has its place in `function`.
pub(super) const LEFT_OUT_OF_TOOLS: [&str; 2] = ["cache_control", "strict"];

/// Whether `name` is one of `names`.
pub(super) fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|known| known.as_bytes() == name)
}

/// The characters of a JSON string. Empty for anything else.
pub(super) fn characters(text: &[u8]) -> Cow<'_, str> {
    match json::string(text) {
        Cow::Borrowed(text) => std::str::from_utf8(text).unwrap_or_default().into(),
        Cow::Owned(text) => String::from_utf8(text).unwrap_or_default().into(),
    }
}

/// Text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What stands between the quotes of a JSON string that is not empty.
fn inner(string: &[u8]) -> Option<&[u8]> {
    string.strip_prefix(b"\"")?.strip_suffix(b"\"").filter(|inner| !inner.is_empty())
}
