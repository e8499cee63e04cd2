//! Records which well-known fields a request has, for errors that name one.

/// The fields that errors name, sorted. `model` and `stream` are excluded, as they are words of any error.
pub const KNOWN_FIELDS: [&str; 53] = [
    "audio",
    "best_of",
    "chat_template_kwargs",
    "dimensions",
    "echo",
    "encoding_format",
    "frequency_penalty",
    "function_call",
    "functions",
    "guided_choice",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "ignore_eos",
    "include_reasoning",
    "input",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "min_p",
    "min_tokens",
    "modalities",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_mode",
    "random_seed",
    "reasoning",
    "reasoning_effort",
    "repetition_penalty",
    "response_format",
    "safe_prompt",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "stop_token_ids",
    "store",
    "stream_options",
    "suffix",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];

/// One of [`KNOWN_FIELDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownField(usize);

impl KnownField {
    pub(crate) fn find(name: &[u8]) -> Option<Self> {
        KNOWN_FIELDS.binary_search_by(|known| known.as_bytes().cmp(name)).ok().map(Self)
    }

    pub(crate) fn as_str(self) -> &'static str {
        KNOWN_FIELDS.get(self.0).copied().unwrap_or_default()
    }
}

/// The known fields that a client sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SentFields(u64);

impl SentFields {
    pub(crate) fn has(self, field: KnownField) -> bool {
        self.0 & (1 << field.0) != 0
    }
}

impl<'n> FromIterator<&'n [u8]> for SentFields {
    fn from_iter<I: IntoIterator<Item = &'n [u8]>>(names: I) -> Self {
        let fields = names.into_iter().filter_map(KnownField::find);
        Self(fields.fold(0, |sent, field| sent | 1 << field.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_field_is_found_and_told_from_the_others() {
        assert!(KNOWN_FIELDS.is_sorted() && KNOWN_FIELDS.len() <= 64);
        for name in KNOWN_FIELDS {
            let field = KnownField::find(name.as_bytes()).unwrap();
            assert_eq!(field.as_str(), name);
            let sent: SentFields = [name.as_bytes(), b"x_unknown"].into_iter().collect();
            assert_eq!(
                KNOWN_FIELDS.iter().filter(|name| sent.has(KnownField::find(name.as_bytes()).unwrap())).count(),
                1
            );
            assert!(sent.has(field));
        }
        assert_eq!(KnownField::find(b"x_unknown"), None);
    }
}
