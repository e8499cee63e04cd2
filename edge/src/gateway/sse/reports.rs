//! Usage that a provider reports beside the choices of a stream with several of them.
//!
//! Some providers report there what all choices have used, and some what that choice has: vLLM if it is asked for usage in
//! every frame. Neither says which. Both are counted, and the words of the answer tell which of the two it is.

use super::super::{json, meter::Usage, usage_report};
use crate::limits;

/// The latest report beside each choice.
#[derive(Debug, Default)]
pub(super) struct ChoiceReports {
    count: u64,
    /// By the choice's `index`.
    latest: Vec<(Vec<u8>, Usage)>,
}

impl ChoiceReports {
    /// Adds what is reported in a frame beside these choices.
    pub(super) fn add(&mut self, choices: &[u8], usage: &Usage) {
        self.count += 1;
        for choice in json::elements(choices).into_iter().flatten() {
            let index = json::fields(choice).map_while(Result::ok).find(|field| *field.name() == *b"index");
            let index = index.and_then(|field| choice.get(field.value)).unwrap_or_default();
            let known = self.latest.iter_mut().find(|(known, _)| known == index);
            if let Some((_, latest)) = known {
                *latest = usage_report::later(Some(*latest), Some(*usage)).unwrap_or(*usage);
            } else if (self.latest.len() as u64) < limits::TEXT_CHOICES {
                self.latest.push((index.iter().copied().take(limits::INDEX_BYTES).collect(), *usage));
            }
        }
    }

    /// The number of reports.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The tokens of all choices if each report is of the choice beside it.
    pub(super) fn sum(&self) -> u64 {
        self.latest.iter().map(|(_, usage)| usage.completion).sum()
    }

    /// Whether the largest report is of all choices, which have about `words` tokens, in so many frames. It then has a token for each
    /// frame at least, and is nearer to what the words have than the sum of the reports is.
    pub(super) fn are_of_all(&self, largest: &Usage, words: u64, frames: u64) -> bool {
        let tokens = largest.completion;
        tokens >= frames && words.abs_diff(tokens) <= self.sum().abs_diff(words)
    }
}
