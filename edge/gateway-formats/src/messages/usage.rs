//! The `usage` of an answer in Anthropic's format.

use domain::usage::AssumedKinds;
use openai::{usage, usage_report};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The tokens used by an answer. Prompt tokens are split into those read from the provider's cache, written to it, and
/// others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct MessagesUsage {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
    /// Whether the gateway estimated the usage because the provider did not report it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    estimated: bool,
    /// The cost of the answer in millionths of a euro.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_microeuros: Option<u64>,
    /// The kinds of tokens that were charged at the higher price because the provider did not report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_assumed: Option<AssumedKinds>,
}

/// The fields of a chat completion's `usage` other than tokens.
#[derive(Default, Deserialize)]
struct UsageExtras {
    estimated: Option<bool>,
    cost_microeuros: Option<u64>,
    cost_assumed: Option<AssumedKinds>,
}

/// The usage reports of one answer, merged like the meter does.
#[derive(Debug, Default)]
pub(super) struct UsageReports {
    sums: Option<usage::TokenUsage>,
    usage: MessagesUsage,
}

impl UsageReports {
    pub(super) fn add(&mut self, usage: &RawValue) {
        let Some(reported) = usage_report::parse(usage.get().as_bytes()) else { return };
        let said: UsageExtras = serde_json::from_str(usage.get()).unwrap_or_default();
        let estimated = said.estimated == Some(true);
        // An estimate is the meter's final value, even if a report was higher.
        self.sums = usage_report::merge_reports(self.sums.take().filter(|_| !estimated), Some(reported));
        if let Some(usage::TokenUsage { prompt, completion, kinds, .. }) = self.sums
            && (prompt, completion) == (reported.prompt, reported.completion)
        {
            let (read, created) = (kinds.cached.unwrap_or(0), kinds.cache_write.unwrap_or(0));
            self.usage = MessagesUsage {
                input_tokens: prompt - read - created,
                cache_creation_input_tokens: created,
                cache_read_input_tokens: read,
                output_tokens: completion,
                estimated,
                ..self.usage
            };
        }
        if said.cost_microeuros.is_some() {
            (self.usage.cost_microeuros, self.usage.cost_assumed) = (said.cost_microeuros, said.cost_assumed);
        }
    }

    pub(super) fn usage(&self) -> MessagesUsage {
        self.usage
    }
}
