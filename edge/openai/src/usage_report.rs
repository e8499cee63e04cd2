//! The `usage` object of answers: reads the provider's, and writes the gateway's estimate if there is none.

mod cost;

use std::{sync::LazyLock, time::Duration};

use config::gateway::UsageFields;
use domain::usage::{Ending, TokenKinds};
use memchr::memmem;

pub use self::cost::CostFields;
use super::{json, usage::TokenUsage};

/// The positions of the counts in the gateway's own `usage` objects.
static OPENAI: LazyLock<UsageFields> = LazyLock::new(UsageFields::default);

/// The fields of a choice whose strings are not the model's words, or repeat them.
const NO_WORDS: [&[u8]; 9] = [
    b"content_filter_results",
    b"finish_reason",
    b"id",
    b"logprobs",
    b"matched_stop",
    b"native_finish_reason",
    b"role",
    b"stop_reason",
    b"type",
];

/// The bounds that a request sets for its usage, from which the gateway estimates if a provider reports none.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedUsage {
    /// The estimated tokens of the prompt.
    pub prompt: u64,
    /// The most tokens of all choices together.
    pub completion: u64,
    /// The number of choices in the answer, over all prompts. It is 0 for embeddings.
    pub choices: u64,
    /// The number of images in the prompt.
    pub images: u64,
}

impl ExpectedUsage {
    /// Estimates the usage of an answer whose choices have about `completion` tokens.
    pub fn estimate(&self, completion: u64) -> TokenUsage {
        let usage = TokenUsage::estimated(self.prompt, completion.min(self.completion));
        TokenUsage { kinds: TokenKinds { images: self.images, ..TokenKinds::default() }, ..usage }
    }

    /// Estimates the usage of an answer with about `completion` tokens, with `reported`'s prompt tokens if any.
    pub fn estimate_with_prompt(&self, reported: &TokenUsage, completion: u64) -> TokenUsage {
        let estimate = self.estimate(completion);
        if reported.prompt == 0 {
            return estimate;
        }
        let kinds = TokenKinds { reasoning: None, ..reported.kinds };
        TokenUsage { prompt: reported.prompt, kinds, is_contradictory: reported.is_contradictory, ..estimate }
    }

    /// Estimates the usage of an answer with as many tokens as the request allows.
    pub fn estimate_at_most(&self) -> TokenUsage {
        self.estimate(self.completion)
    }

    /// Estimates the usage of an answer that was not read, from how long the provider worked on it.
    pub fn estimate_unread(&self, worked: Duration) -> TokenUsage {
        let tokens = worked.as_millis().saturating_mul(limits::TOKENS_PER_SECOND.into()) / 1_000;
        self.estimate(u64::try_from(tokens).unwrap_or(u64::MAX).saturating_mul(self.choices))
    }
}

/// Estimates the tokens of a text of this many bytes.
pub fn estimate_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(limits::BYTES_PER_TOKEN)
}

/// Counts the bytes of the model's words in the JSON of an answer's choices, which may be cut off anywhere.
pub fn word_bytes(choices: &[u8]) -> usize {
    json::count_string_bytes(choices, &NO_WORDS)
}

/// Returns whether a content filter has ended any of the choices, by their `finish_reason`.
pub fn is_filtered(choices: &[u8]) -> bool {
    finish_reasons(choices).any(|reason| reason == b"content_filter")
}

/// Returns how the choices end, by the last string in a `finish_reason`.
pub fn last_finish_reason(choices: &[u8]) -> Option<Ending> {
    finish_reasons(choices).last().map(Ending::from_reason)
}

/// Returns how the choices of a frame end. Searches only the end of the JSON, where the reason usually is, for speed.
pub fn frame_ending(choices: &[u8]) -> Option<Ending> {
    last_finish_reason(choices.get(choices.len().saturating_sub(limits::FRAME_END_BYTES)..).unwrap_or_default())
}

/// Iterates over the raw strings of the choices' `finish_reason` fields.
fn finish_reasons(choices: &[u8]) -> impl Iterator<Item = &[u8]> {
    let name = b"\"finish_reason\"";
    memmem::find_iter(choices, name).filter_map(move |at| {
        let rest = choices.get(at + name.len()..).unwrap_or_default().trim_ascii_start();
        let reason = rest.strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
        reason.get(..memchr::memchr(b'"', reason)?)
    })
}

/// Estimates the tokens of choices with this many bytes of words. The end counts as one, so the result is at least 1.
pub fn estimate_completion(word_bytes: usize) -> u64 {
    estimate_tokens(word_bytes).max(1)
}

/// Parses the usage that the gateway itself wrote in a chat completion.
pub fn parse(usage: &[u8]) -> Option<TokenUsage> {
    parse_provider_usage(usage, &OPENAI, 0)
}

/// Reads the usage that a provider reports in these `places`.
///
/// Returns `None` if it is incomplete or exceeds [`limits::BELIEVABLE_TOKENS`]. A field that is not a count is treated
/// as absent, and so is a total that leaves no tokens for the completion, if that has no count of its own. Tokens that
/// are only in the total belong to the completion: some providers count reasoning nowhere else. `images` is used if the
/// report has none.
pub fn parse_provider_usage(usage: &[u8], places: &UsageFields, images: u64) -> Option<TokenUsage> {
    let pointers = places.pointers();
    let mut counts = [None; 7];
    for field in json::fields(usage) {
        let field = field.ok()?;
        let (name, value) = (field.name(), usage.get(field.value)?);
        for (count, pointer) in counts.iter_mut().zip(pointers) {
            if let Some((first, rest)) = pointer.and_then(|pointer| pointer.names().split_first())
                && first.as_bytes() == &*name
            {
                *count = count_at(value, rest);
            }
        }
    }
    let [prompt, completion, total, cached, cache_write, reasoning, counted_images] = counts;
    let beside = |is_within: bool, count: Option<u64>| if is_within { 0 } else { count.unwrap_or(0) };
    let cache = [cached, cache_write].map(|count| beside(places.prompt_includes_cache, count));
    let prompt = prompt?.saturating_add(cache[0]).saturating_add(cache[1]);
    let thoughts = beside(places.completion_includes_reasoning, reasoning);
    let completion = completion.map(|said| said.saturating_add(thoughts));
    let rest = total.and_then(|total| total.checked_sub(prompt)).filter(|rest| *rest > 0);
    let completion = completion.max(rest)?;
    if prompt.max(completion) > limits::BELIEVABLE_TOKENS {
        return None;
    }
    let images = counted_images.map_or(images, |counted| counted.min(limits::BELIEVABLE_TOKENS));
    let said = TokenKinds { cached, cache_write, reasoning, images };
    let kinds = said.clamped_to(prompt, completion);
    Some(TokenUsage { prompt, completion, kinds, is_contradictory: kinds != said, is_estimated: false })
}

fn count_at(value: &[u8], names: &[String]) -> Option<u64> {
    let Some((first, rest)) = names.split_first() else { return serde_json::from_slice(value).ok() };
    let fields = json::fields(value).map_while(Result::ok);
    let inner = fields.filter(|field| *field.name() == *first.as_bytes()).last()?;
    count_at(value.get(inner.value)?, rest)
}

/// Returns the usage after another report. Reports are running totals, so one with fewer tokens is ignored, and one
/// with the same tokens but without their kinds keeps the known kinds.
pub fn merge_reports(known: Option<TokenUsage>, reported: Option<TokenUsage>) -> Option<TokenUsage> {
    let total = |usage: &TokenUsage| usage.prompt.saturating_add(usage.completion);
    match (known, reported) {
        (Some(known), Some(reported)) if total(&reported) < total(&known) => Some(known),
        (Some(known), Some(mut reported)) => {
            let (kinds, before) = (&mut reported.kinds, known.kinds);
            if reported.prompt == known.prompt {
                kinds.cached = kinds.cached.or(before.cached);
                kinds.cache_write = kinds.cache_write.or(before.cache_write);
            }
            if reported.completion == known.completion {
                kinds.reasoning = kinds.reasoning.or(before.reasoning);
            }
            *kinds = kinds.clamped_to(reported.prompt, reported.completion);
            Some(reported)
        }
        (known, reported) => reported.or(known),
    }
}

/// Returns the usage as `OpenAI` writes it, with its cost, and `"estimated": true` for an estimate.
pub fn to_json(usage: &TokenUsage, cost: &CostFields) -> String {
    let TokenUsage { prompt, completion, kinds, is_estimated, .. } = *usage;
    let total = prompt.saturating_add(completion);
    let mut json = format!("{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion},\"total_tokens\":{total}");
    let TokenKinds { cached, cache_write, reasoning, images: _ } = kinds;
    for (name, details) in [
        ("prompt", [("cached", cached), ("cache_creation", cache_write)].as_slice()),
        ("completion", &[("reasoning", reasoning)]),
    ] {
        let known = details.iter().filter_map(|(kind, count)| Some(format!("\"{kind}_tokens\":{}", (*count)?)));
        let known = known.collect::<Vec<_>>().join(",");
        if !known.is_empty() {
            for part in [",\"", name, "_tokens_details\":{", &known, "}"] {
                json.push_str(part);
            }
        }
    }
    if is_estimated {
        json.push_str(",\"estimated\":true");
    }
    format!("{json}{cost}}}")
}

#[cfg(test)]
mod tests;
