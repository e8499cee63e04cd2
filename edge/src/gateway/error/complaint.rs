//! What a provider says is wrong with a request, told by the words of its error.
//!
//! Clients act on what is wrong: an agent whose prompt is too long shortens its history and goes on, and one whose field is
//! not supported must not. Providers word it in their own ways, which [`wordings`] lists. Nothing of those words leaves
//! here: a [`Complaint`] is all that is kept of them.

mod wordings;

use serde_json::Value;

use self::wordings::{COMPLETION_COUNTS, OVERFLOWS, PROMPT_COUNTS, UNRELATED, WORDINGS};
use crate::{
    gateway::request::{KNOWN_FIELDS, KnownField},
    limits,
};

/// What a provider says is wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) enum Complaint {
    /// The prompt, or the prompt and the completion together, is longer than the model's context.
    ContextLength,
    /// More tokens are asked for than the model writes.
    CompletionLength,
    /// A content filter holds the prompt back.
    ContentFilter,
    /// The model does not read images.
    Images,
    /// A field is not supported; the one that the words name first, if clients send it.
    Field(Option<KnownField>),
}

/// An error that a provider reports in the body of an answer that began well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) struct Report {
    /// The fault of the request, if the provider's words name one.
    pub(in crate::gateway) complaint: Option<Complaint>,
    /// The status that stands in the error.
    pub(in crate::gateway) status: Option<u64>,
}

impl Report {
    /// A report of which nothing is known.
    pub(in crate::gateway) const NONE: Self = Self { complaint: None, status: None };

    /// Reads the body of an error.
    pub(in crate::gateway) fn of(body: &[u8]) -> Self {
        let status = serde_json::from_slice(body).ok().and_then(|body: Value| find_status(&body));
        Self { complaint: Complaint::of(body), status }
    }
}

impl Complaint {
    /// Finds in the body of an error what it complains of. `None` if it has none of the known wordings.
    pub(in crate::gateway) fn of(body: &[u8]) -> Option<Self> {
        let words = Words::of(body).0;
        let has = |fragments: &&[&str]| has_in_order(&words, fragments);
        if UNRELATED.iter().any(has) {
            return None;
        }
        if OVERFLOWS.iter().any(has) {
            // Where both are counted, the longer one is at fault.
            let counts = (count_before(&words, PROMPT_COUNTS), count_before(&words, COMPLETION_COUNTS));
            return Some(match counts {
                (Some(prompt), Some(completion)) if prompt < completion => Self::CompletionLength,
                _ => Self::ContextLength,
            });
        }
        let (complaint, _) = WORDINGS.iter().find(|(_, wordings)| wordings.iter().any(has))?;
        Some(match complaint {
            Self::Field(_) => Self::Field(first_field(&words)),
            complaint => *complaint,
        })
    }
}

/// The words of an error, in lower case: its messages and codes, without what repeats the client's own input.
struct Words(String);

impl Words {
    fn of(body: &[u8]) -> Self {
        let mut words = Self(String::new());
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => words.add(&value),
            Err(_) => words.add_text(&String::from_utf8_lossy(body)),
        }
        words
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                // Relays put a provider's error into a string of their own.
                Ok(inner @ (Value::Object(_) | Value::Array(_))) => self.add(&inner),
                _ => self.add_text(text),
            },
            Value::Array(values) => values.iter().for_each(|value| self.add(value)),
            Value::Object(fields) => {
                for (_, value) in fields.iter().filter(|(name, _)| !ECHOES.contains(&name.as_str())) {
                    self.add(value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn add_text(&mut self, text: &str) {
        // Python's notation of a list of errors repeats the input as well.
        let end = ECHO_MARKS.iter().filter_map(|mark| text.find(mark)).min().unwrap_or(text.len());
        let end = text.floor_char_boundary(end.min(limits::PROVIDER_WORDS_BYTES));
        let text = text.get(..end).unwrap_or_default();
        // A quoted value stays quoted, so that the name of a field is told from the word.
        self.0.push('"');
        self.0.extend(text.chars().filter(|letter| *letter != '\\').flat_map(char::to_lowercase));
        self.0.push_str("\"\n");
    }
}

/// Fields of errors that repeat the client's own input.
const ECHOES: [&str; 6] = ["input", "ctx", "url", "value", "body", "request"];
/// What stands before the client's own input in a text.
const ECHO_MARKS: [&str; 4] = ["input_value=", "'input':", "\"input\":", "\\\"input\\\":"];

/// Whether `words` has all of the fragments, one after the other.
fn has_in_order(words: &str, fragments: &[&str]) -> bool {
    let mut rest = words;
    fragments.iter().all(|fragment| match rest.find(fragment) {
        Some(at) => {
            rest = rest.get(at + fragment.len()..).unwrap_or_default();
            true
        }
        None => false,
    })
}

/// The number that stands right before the first of `marks` that has one.
fn count_before(words: &str, marks: &[&str]) -> Option<u64> {
    marks.iter().flat_map(|mark| words.match_indices(mark)).find_map(|(at, _)| {
        let before = words.get(..at)?;
        let start = before.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
        before.get(start..)?.parse().ok()
    })
}

/// The field of a request that `words` names first, between quotes. `model` and the like, which are words of every error, are none.
fn first_field(words: &str) -> Option<KnownField> {
    let is_quote = |letter: char| matches!(letter, '"' | '\'' | '`');
    let named = KNOWN_FIELDS.iter().filter_map(|name| {
        let is_plain_word = !name.contains('_');
        let at = words.match_indices(name).find_map(|(at, _)| {
            let before = words.get(..at)?.chars().next_back()?;
            let after = words.get(at + name.len()..)?.chars().next()?;
            let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let is_named =
                if is_plain_word { is_quote(before) && is_quote(after) } else { !is_part(before) && !is_part(after) };
            is_named.then_some(at)
        })?;
        Some((at, *name))
    });
    named.min().and_then(|(_, name)| KnownField::find(name.as_bytes()))
}

/// The status that an error has in its body.
fn find_status(body: &Value) -> Option<u64> {
    let error = body.get("error").filter(|error| error.is_object()).unwrap_or(body);
    let mut statuses = ["status", "status_code", "code"].iter().filter_map(|name| {
        let status = error.get(name)?;
        status.as_u64().or_else(|| status.as_str()?.parse().ok())
    });
    statuses.find(|status| (400..600).contains(status))
}

#[cfg(test)]
mod tests;
