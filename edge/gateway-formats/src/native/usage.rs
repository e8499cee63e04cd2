//! The `usage` of answers in their own formats.

use openai::{
    json as fields,
    usage::TokenUsage,
    usage_report::{self, ExpectedUsage},
};
use serde::Deserialize;
use serde_json::json;

use super::super::CompletionApi;

/// The usage that an answer has reported so far. The counts are running totals, and each report has some of them.
#[derive(Debug, Default)]
pub(crate) struct NativeUsage {
    input: Option<u64>,
    cache_created: Option<u64>,
    cache_read: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
}

#[derive(Deserialize, Default)]
struct TokenDetails {
    cached_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

impl NativeUsage {
    /// Adds a report. Values that are not counts are treated as absent.
    pub(crate) fn add(&mut self, report: &[u8]) {
        for field in fields::fields(report).map_while(Result::ok) {
            let value = report.get(field.value.clone()).unwrap_or_default();
            let (count, details) = match &*field.name() {
                b"input_tokens" => (&mut self.input, None),
                b"cache_creation_input_tokens" => (&mut self.cache_created, None),
                b"cache_read_input_tokens" => (&mut self.cache_read, None),
                b"output_tokens" => (&mut self.output, None),
                b"input_tokens_details" => (&mut self.cache_read, Some(true)),
                b"output_tokens_details" => (&mut self.reasoning, Some(false)),
                _ => continue,
            };
            let known = match details {
                None => serde_json::from_slice(value).ok(),
                Some(is_input) => {
                    let details: TokenDetails = serde_json::from_slice(value).unwrap_or_default();
                    if is_input { details.cached_tokens } else { details.reasoning_tokens }
                }
            };
            // A later, smaller report reduces nothing.
            *count = (*count).max(known);
        }
    }

    /// Returns the reported usage, or an estimate from the words if it is missing or has no completion tokens for them.
    pub(crate) fn or_estimate(&self, api: CompletionApi, word_bytes: usize, expected: &ExpectedUsage) -> TokenUsage {
        let words = || usage_report::estimate_completion(word_bytes);
        match self.read(api) {
            Some(usage) if usage.completion > 0 || word_bytes == 0 => usage,
            Some(usage) => expected.estimate_with_prompt(&usage, words()),
            None => expected.estimate(words()),
        }
    }

    /// Returns the usage in the format of chat completions, if it is complete and plausible.
    pub(crate) fn read(&self, api: CompletionApi) -> Option<TokenUsage> {
        let (read, created) = (self.cache_read.unwrap_or_default(), self.cache_created.unwrap_or_default());
        let input = self.input?;
        // Anthropic counts cached tokens separately; others include them in the total.
        let prompt =
            if api == CompletionApi::Messages { input.saturating_add(read).saturating_add(created) } else { input };
        let output = self.output?;
        let report = json!({
            "prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt.saturating_add(output),
            "prompt_tokens_details": { "cached_tokens": self.cache_read, "cache_creation_tokens": self.cache_created },
            "completion_tokens_details": { "reasoning_tokens": self.reasoning },
        });
        usage_report::parse(report.to_string().as_bytes())
    }
}
