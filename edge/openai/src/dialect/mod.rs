//! The dialects of providers: rewrites requests to what a provider accepts, and answers to `OpenAI`'s format.
//!
//! The rules are data, the [`ProviderQuirks`](config::gateway::ProviderQuirks) of the provider's entry; no provider is hardcoded. Text
//! is rewritten in one pass over its bytes, and copied where no rule applies. `request` validates requests beforehand,
//! so nothing is refused here. Start with [`write_messages`] and [`flatten_choices`].

mod answer;
mod call_ids;
mod messages;
mod object;
mod parts;
mod text;
mod tools;

use std::borrow::Cow;

pub use self::{
    answer::flatten_choices,
    messages::write_messages,
    object::TextSink,
    text::to_text_choices,
    tools::{ParsedToolChoice, write_tools},
};
use super::json;

/// The fields left out of messages for all providers: caching has its own price.
pub const LEFT_OUT_OF_MESSAGES: [&str; 1] = ["cache_control"];
/// The fields left out of content parts for all providers.
pub const LEFT_OUT_OF_PARTS: [&str; 2] = ["annotations", "cache_control"];
/// The fields left out of images for all providers.
pub const LEFT_OUT_OF_IMAGES: [&str; 1] = ["format"];
/// The fields left out of tools for all providers. `strict` belongs in `function`.
pub const LEFT_OUT_OF_TOOLS: [&str; 2] = ["cache_control", "strict"];

/// Returns whether `name` is among `names`, byte for byte.
pub fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|known| known.as_bytes() == name)
}

/// Returns the characters of a JSON string, or an empty string for anything else.
pub fn characters(text: &[u8]) -> Cow<'_, str> {
    match json::decode_string_or_empty(text) {
        Cow::Borrowed(text) => std::str::from_utf8(text).unwrap_or_default().into(),
        Cow::Owned(text) => String::from_utf8(text).unwrap_or_default().into(),
    }
}

/// Returns `text` as a JSON string, with quotes and the necessary escapes.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns the text between the quotes of a non-empty JSON string.
fn inner(string: &[u8]) -> Option<&[u8]> {
    string.strip_prefix(b"\"")?.strip_suffix(b"\"").filter(|inner| !inner.is_empty())
}
