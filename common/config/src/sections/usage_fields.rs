//! `gateway.providers.*.usage`: where a provider's `usage` object holds the token counts of a completion.

use serde::{Deserialize, Serialize};

/// The positions of the token counts in a provider's `usage` object, as JSON pointers. The default is `OpenAI`'s
/// format, in which cached tokens are part of the prompt's count, and reasoning tokens are part of the completion's.
///
/// A count that is missing or not a whole number is not reported: its tokens are charged at the higher price, and the
/// response and the record of the completion say so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UsageFields {
    /// Tokens of the prompt.
    pub prompt: JsonPointer,
    /// Tokens of the completion.
    pub completion: JsonPointer,
    /// Tokens of the prompt and the completion together.
    pub total: JsonPointer,
    /// Prompt tokens that the provider had cached.
    pub cached_input: JsonPointer,
    /// Prompt tokens that the provider wrote to its cache.
    pub cache_write: JsonPointer,
    /// Completion tokens that were used for reasoning.
    pub reasoning: JsonPointer,
    /// Images in the prompt. When absent, the images of the request are counted.
    pub images: Option<JsonPointer>,
    /// Whether the prompt count includes its cached tokens; `false` if they are separate (Anthropic's `input_tokens`).
    pub prompt_includes_cache: bool,
    /// Whether the completion count includes reasoning tokens. With `false`, they are counted separately.
    pub completion_includes_reasoning: bool,
}

impl Default for UsageFields {
    fn default() -> Self {
        Self {
            prompt: JsonPointer::shipped(&["prompt_tokens"]),
            completion: JsonPointer::shipped(&["completion_tokens"]),
            total: JsonPointer::shipped(&["total_tokens"]),
            cached_input: JsonPointer::shipped(&["prompt_tokens_details", "cached_tokens"]),
            cache_write: JsonPointer::shipped(&["prompt_tokens_details", "cache_creation_tokens"]),
            reasoning: JsonPointer::shipped(&["completion_tokens_details", "reasoning_tokens"]),
            images: None,
            prompt_includes_cache: true,
            completion_includes_reasoning: true,
        }
    }
}

impl UsageFields {
    /// Returns the fields of `OpenAI`'s responses.
    pub fn responses() -> Self {
        Self {
            prompt: JsonPointer::shipped(&["input_tokens"]),
            completion: JsonPointer::shipped(&["output_tokens"]),
            cached_input: JsonPointer::shipped(&["input_tokens_details", "cached_tokens"]),
            cache_write: JsonPointer::shipped(&["input_tokens_details", "cache_creation_tokens"]),
            reasoning: JsonPointer::shipped(&["output_tokens_details", "reasoning_tokens"]),
            ..Self::default()
        }
    }

    /// Returns the fields of Anthropic's messages.
    pub fn messages() -> Self {
        Self {
            prompt: JsonPointer::shipped(&["input_tokens"]),
            completion: JsonPointer::shipped(&["output_tokens"]),
            cached_input: JsonPointer::shipped(&["cache_read_input_tokens"]),
            cache_write: JsonPointer::shipped(&["cache_creation_input_tokens"]),
            prompt_includes_cache: false,
            ..Self::default()
        }
    }

    /// Returns whether an `OpenAI` client reads the same counts from such a `usage` object.
    pub fn is_openai(&self) -> bool {
        let openai = Self::default();
        self.pointers()[..6] == openai.pointers()[..6]
            && (self.prompt_includes_cache, self.completion_includes_reasoning) == (true, true)
    }

    /// Returns the pointers, in the order of the fields.
    pub fn pointers(&self) -> [Option<&JsonPointer>; 7] {
        [
            Some(&self.prompt),
            Some(&self.completion),
            Some(&self.total),
            Some(&self.cached_input),
            Some(&self.cache_write),
            Some(&self.reasoning),
            self.images.as_ref(),
        ]
    }
}

/// A JSON pointer (RFC 6901) to a field, such as `/prompt_tokens_details/cached_tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JsonPointer(Vec<String>);

/// The error for a text that is not a pointer to a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a JSON pointer to a field begins with a slash and has at most {} names", JsonPointer::MOST_NAMES)]
pub struct JsonPointerError;

impl JsonPointer {
    /// The maximum number of names in a pointer; no provider nests counts deeper.
    const MOST_NAMES: usize = 4;

    fn shipped(names: &[&str]) -> Self {
        Self(names.iter().copied().map(str::to_owned).collect())
    }

    /// Returns the names of the fields that lead to the target, at least one.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

impl TryFrom<String> for JsonPointer {
    type Error = JsonPointerError;

    fn try_from(text: String) -> Result<Self, JsonPointerError> {
        let names = text.strip_prefix('/').ok_or(JsonPointerError)?.split('/');
        let names: Vec<_> = names.map(|name| name.replace("~1", "/").replace("~0", "~")).collect();
        let is_valid = names.len() <= Self::MOST_NAMES && names.iter().all(|name| !name.is_empty());
        is_valid.then_some(Self(names)).ok_or(JsonPointerError)
    }
}

impl From<JsonPointer> for String {
    fn from(pointer: JsonPointer) -> Self {
        let names = pointer.0.iter().flat_map(|name| ["/".to_owned(), name.replace('~', "~0").replace('/', "~1")]);
        names.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_names_the_fields_that_lead_to_a_count() {
        for (text, names) in [("/a", &["a"][..]), ("/a/b", &["a", "b"]), ("/a~1b/~0", &["a/b", "~"])] {
            let pointer = JsonPointer::try_from(text.to_owned()).unwrap();
            assert_eq!(pointer.names(), names);
            assert_eq!(String::from(pointer), text);
        }
        for text in ["", "a", "/", "/a/", "//a", "/a/b/c/d/e"] {
            assert_eq!(JsonPointer::try_from(text.to_owned()), Err(JsonPointerError), "{text}");
        }
        let table: UsageFields = toml::from_str("cached_input = \"/prompt_cache_hit_tokens\"").unwrap();
        assert_eq!(table.prompt, UsageFields::default().prompt);
        assert!(!table.is_openai() && UsageFields::default().is_openai() && !UsageFields::messages().is_openai());
        assert!(toml::from_str::<UsageFields>("cached = \"/x\"").is_err());
    }
}
