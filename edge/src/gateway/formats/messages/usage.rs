//! The `usage` of an answer in Anthropic's terms.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::gateway::{meter, usage_report};

/// The tokens that an answer has used. The prompt's are divided into those that the provider had in its cache, those that it
/// has put there, and the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Usage {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
    /// Whether the gateway has estimated it, because the provider has not said it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    estimated: bool,
}

/// What a chat completion's `usage` may say beside its sums.
#[derive(Deserialize)]
struct Details {
    prompt_tokens_details: Option<PromptDetails>,
    estimated: Option<bool>,
}

#[derive(Deserialize, Default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_creation_tokens: Option<u64>,
}

/// The reports of one answer, the latest of which holds as it does for the meter.
#[derive(Debug, Default)]
pub(super) struct Reports {
    sums: Option<meter::Usage>,
    usage: Usage,
}

impl Reports {
    /// Adds a chat completion's `usage`.
    pub(super) fn add(&mut self, usage: &RawValue) {
        let Some(reported) = usage_report::parse(usage.get().as_bytes()) else { return };
        let details: Option<Details> = serde_json::from_str(usage.get()).ok();
        let estimated = details.as_ref().and_then(|details| details.estimated) == Some(true);
        // An estimate is the meter's last word, although a report may have said more.
        let later = usage_report::later(self.sums.take().filter(|_| !estimated), Some(reported));
        let is_this = later == Some(reported);
        self.sums = later;
        if is_this {
            let prompt = details.and_then(|details| details.prompt_tokens_details).unwrap_or_default();
            let read = prompt.cached_tokens.unwrap_or_default().min(reported.prompt);
            let created = prompt.cache_creation_tokens.unwrap_or_default().min(reported.prompt - read);
            self.usage = Usage {
                input_tokens: reported.prompt - read - created,
                cache_creation_input_tokens: created,
                cache_read_input_tokens: read,
                output_tokens: reported.completion,
                estimated,
            };
        }
    }

    /// The usage as it is known now.
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }
}
