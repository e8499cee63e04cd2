//! The `usage` object of answers: reading the provider's, and writing the gateway's estimate where there is none.

use std::time::Duration;

use memchr::memmem;

use super::{json, meter::Usage};
use crate::limits;

/// The fields of a choice whose strings are not the model's words, or say them once more.
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

/// The bounds of a completion's usage that its request sets. The gateway estimates by them where a provider reports no usage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    /// The tokens of the prompt, probably.
    pub(super) prompt: u64,
    /// The most tokens that all choices together can have.
    pub(super) completion: u64,
    /// The number of choices.
    pub(super) choices: u64,
}

impl Expected {
    /// The usage of an answer whose choices have so many tokens, probably.
    pub(super) fn estimate(&self, completion: u64) -> Usage {
        Usage { prompt: self.prompt, completion: completion.min(self.completion), is_estimated: true }
    }

    /// The usage of an answer whose choices have so many tokens, probably, with the prompt's tokens as `reported`, if it has any.
    pub(super) fn estimate_beside(&self, reported: &Usage, completion: u64) -> Usage {
        let prompt = if reported.prompt > 0 { reported.prompt } else { self.prompt };
        Usage { prompt, ..self.estimate(completion) }
    }

    /// The usage of an answer on which a provider has worked for so long, and of which nothing was read.
    pub(super) fn estimate_unread(&self, worked: Duration) -> Usage {
        let tokens = worked.as_millis().saturating_mul(limits::TOKENS_PER_SECOND.into()) / 1_000;
        self.estimate(u64::try_from(tokens).unwrap_or(u64::MAX).saturating_mul(self.choices))
    }
}

/// The number of tokens that a text of this many bytes usually has.
pub(super) fn estimate_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(limits::BYTES_PER_TOKEN)
}

/// The bytes of the model's words in the JSON of an answer's choices, which may be cut off anywhere.
pub(super) fn word_bytes(choices: &[u8]) -> usize {
    json::string_bytes(choices, &NO_WORDS)
}

/// Whether a content filter ended one of the choices.
pub(super) fn is_filtered(choices: &[u8]) -> bool {
    let filtered = b"\"content_filter\"";
    memmem::find_iter(choices, filtered).any(|at| {
        let before = choices.get(..at).unwrap_or_default().trim_ascii_end();
        let name = before.strip_suffix(b":").unwrap_or_default().trim_ascii_end();
        name.ends_with(b"\"finish_reason\"")
    })
}

/// The number of tokens of choices with so many bytes of words, probably: one at least, that of their end.
pub(super) fn estimate_completion(word_bytes: usize) -> u64 {
    estimate_tokens(word_bytes).max(1)
}

/// The usage that a provider reports, or `None` if it is incomplete or beyond [`limits::BELIEVABLE_TOKENS`]. A field that is no
/// count is as good as none, and so is a total without a token of the completion's where that has no count of its own. Tokens that only
/// the total has are the completion's: some providers count the model's reasoning nowhere else.
pub(super) fn parse(usage: &[u8]) -> Option<Usage> {
    let (mut prompt, mut completion, mut total) = (None, None, None);
    for field in json::fields(usage) {
        let field = field.ok()?;
        let count = match &*field.name() {
            b"prompt_tokens" => &mut prompt,
            b"completion_tokens" => &mut completion,
            b"total_tokens" => &mut total,
            _ => continue,
        };
        *count = serde_json::from_slice::<u64>(usage.get(field.value)?).ok();
    }
    let prompt = prompt?;
    let rest = total.and_then(|total| total.checked_sub(prompt)).filter(|rest| *rest > 0);
    let completion = completion.max(rest)?;
    let is_believable = prompt.max(completion) <= limits::BELIEVABLE_TOKENS;
    is_believable.then_some(Usage { prompt, completion, is_estimated: false })
}

/// The usage after one more report. Reports are running totals, so one of fewer tokens takes nothing back.
pub(super) fn later(known: Option<Usage>, reported: Option<Usage>) -> Option<Usage> {
    let total = |usage: &Usage| usage.prompt.saturating_add(usage.completion);
    match (known, reported) {
        (Some(known), Some(reported)) if total(&reported) < total(&known) => Some(known),
        (known, reported) => reported.or(known),
    }
}

/// The usage as `OpenAI` writes it, with `"estimated": true` added to an estimate.
pub(super) fn to_json(usage: &Usage) -> String {
    let Usage { prompt, completion, is_estimated } = *usage;
    let total = prompt.saturating_add(completion);
    let mark = if is_estimated { ",\"estimated\":true" } else { "" };
    format!("{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion},\"total_tokens\":{total}{mark}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_and_unbelievable_reports_are_ignored() {
        for usage in [
            "7",
            "{}",
            r#"{"prompt_tokens":-1,"completion_tokens":1}"#,
            r#"{"prompt_tokens":4,"completion_tokens":"7","total_tokens":4}"#,
            r#"{"prompt_tokens":1,"completion_tokens":99999999999}"#,
        ] {
            assert!(parse(usage.as_bytes()).is_none(), "{usage}");
        }
        for (usage, completion) in [
            (r#"{"prompt_tokens":4,"total_tokens":9}"#, 5),
            (r#"{"prompt_tokens":4,"completion_tokens":"7","total_tokens":9}"#, 5),
            (r#"{"prompt_tokens":4,"completion_tokens":7,"total_tokens":11.5}"#, 7),
            (r#"{"prompt_tokens":9,"prompt_tokens":4,"completion_tokens":7,"total_tokens":-1,"x":[{}]}"#, 7),
        ] {
            let reported = parse(usage.as_bytes()).unwrap();
            assert_eq!((reported.prompt, reported.completion), (4, completion), "{usage}");
        }
    }
}
