//! Usage reports in frames with choices, for streams with several choices.
//!
//! Some providers report there the usage of all choices, others that of the frame's choice, like vLLM when asked for
//! usage in every frame. The reports do not tell which, so both are tracked, and the answer's words decide.

use openai::{json, usage::TokenUsage, usage_report};

/// The latest report for each choice.
#[derive(Debug, Default)]
pub(super) struct ChoiceReports {
    count: u64,
    /// By the choice's `index`.
    latest: Vec<(Vec<u8>, TokenUsage)>,
}

impl ChoiceReports {
    /// Adds the report of a frame with these choices.
    pub(super) fn add(&mut self, choices: &[u8], usage: &TokenUsage) {
        self.count += 1;
        for choice in json::array_elements(choices).into_iter().flatten() {
            let index = json::fields(choice).map_while(Result::ok).find(|field| *field.name() == *b"index");
            let index = index.and_then(|field| choice.get(field.value)).unwrap_or_default();
            let known = self.latest.iter_mut().find(|(known, _)| known == index);
            if let Some((_, latest)) = known {
                *latest = usage_report::merge_reports(Some(*latest), Some(*usage)).unwrap_or(*usage);
            } else if (self.latest.len() as u64) < limits::TEXT_CHOICES {
                self.latest.push((index.iter().copied().take(limits::INDEX_BYTES).collect(), *usage));
            }
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the tokens of all choices, if each report is for its frame's choice.
    pub(super) fn sum(&self) -> u64 {
        self.latest.iter().map(|(_, usage)| usage.completion).sum()
    }

    /// Returns whether the largest report covers all choices, given about `words` tokens in `frames` frames. It then
    /// has at least one token per frame, and is closer to `words` than the sum of the reports.
    pub(super) fn covers_all_choices(&self, largest: &TokenUsage, words: u64, frames: u64) -> bool {
        let tokens = largest.completion;
        tokens >= frames && words.abs_diff(tokens) <= self.sum().abs_diff(words)
    }
}
