//! Recognizes by the words of a provider's error what is wrong with a request.
//!
//! Clients act on the cause: an agent whose prompt is too long shortens its history and continues, but must not do so
//! when a field is not supported. Providers word their errors in their own ways, which [`wordings`] lists. Only a
//! [`RequestComplaint`] leaves this module, never the words.

mod wordings;

use serde_json::Value;

use self::wordings::{COMPLETION_COUNTS, OVERFLOWS, PROMPT_COUNTS, UNRELATED, WORDINGS};
use crate::request::{KNOWN_FIELDS, KnownField};

/// What a provider's error says is wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestComplaint {
    /// The prompt, or the prompt and the completion together, is longer than the model's context.
    ContextLength,
    /// The request asks for more tokens than the model writes.
    CompletionLength,
    /// The provider's content filter holds the request back.
    ContentFilter,
    /// The model does not read images.
    Images,
    /// A field is not supported: the first one named, if it is one that clients send.
    Field(Option<KnownField>),
}

/// An error that a provider reports in the body of an answer with a successful status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorReport {
    /// The kind of fault in the request, if the words of the error are recognized.
    pub complaint: Option<RequestComplaint>,
    /// The HTTP status from 400 to 599 that the body states, if any.
    pub status: Option<u64>,
}

impl ErrorReport {
    /// The report of a body that is not examined.
    pub const NONE: Self = Self { complaint: None, status: None };

    /// Parses the body of an error. A body that is not JSON is searched for words, and states no status.
    pub fn parse(body: &[u8]) -> Self {
        let status = serde_json::from_slice(body).ok().and_then(|body: Value| find_status(&body));
        Self { complaint: RequestComplaint::find(body), status }
    }
}

impl RequestComplaint {
    /// Finds the complaint in the body of an error. Returns `None` if it matches no known wording.
    pub fn find(body: &[u8]) -> Option<Self> {
        let words = ErrorWords::parse(body).0;
        let has = |fragments: &&[&str]| has_in_order(&words, fragments);
        if UNRELATED.iter().any(has) {
            return None;
        }
        if OVERFLOWS.iter().any(has) {
            // If both are counted, the longer one is at fault.
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

/// The words of an error in lower case: its messages and codes, without repeated client input.
struct ErrorWords(String);

impl ErrorWords {
    fn parse(body: &[u8]) -> Self {
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
                // Relays wrap a provider's error in a string of their own.
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
        // Python's notation of an error list also repeats the input.
        let end = ECHO_MARKS.iter().filter_map(|mark| text.find(mark)).min().unwrap_or(text.len());
        let end = text.floor_char_boundary(end.min(limits::PROVIDER_WORDS_BYTES));
        let text = text.get(..end).unwrap_or_default();
        // Quoted values stay quoted, so that a field's name differs from the plain word.
        self.0.push('"');
        self.0.extend(text.chars().filter(|letter| *letter != '\\').flat_map(char::to_lowercase));
        self.0.push_str("\"\n");
    }
}

/// Fields of errors that repeat the client's own input.
const ECHOES: [&str; 6] = ["input", "ctx", "url", "value", "body", "request"];
/// Marks that precede the client's own input in a text.
const ECHO_MARKS: [&str; 4] = ["input_value=", "'input':", "\"input\":", "\\\"input\\\":"];

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

/// Returns the number right before the first of `marks` that has one.
fn count_before(words: &str, marks: &[&str]) -> Option<u64> {
    marks.iter().flat_map(|mark| words.match_indices(mark)).find_map(|(at, _)| {
        let before = words.get(..at)?;
        let start = before.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
        before.get(start..)?.parse().ok()
    })
}

/// Finds the field that `words` names first. Names that are plain words, as in any error, count only in quotes.
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
