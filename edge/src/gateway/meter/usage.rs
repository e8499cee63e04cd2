//! Token counts of a completion.

use domain::usage::TokenKinds;

/// The most tokens that a completion can use; this many are reserved for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxUsage {
    /// An upper estimate of the prompt's tokens.
    pub prompt: u64,
    /// `max_tokens`, times the number of choices.
    pub completion: u64,
    /// The images of the prompt.
    pub images: u64,
}

/// The tokens that a completion has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Tokens of the answer, over all choices.
    pub completion: u64,
    /// Which of them have a price of their own, as far as the provider has reported it.
    pub kinds: TokenKinds,
    /// Whether the provider has reported more tokens of a kind than there are in all.
    pub is_contradictory: bool,
    /// Whether the counts are the gateway's estimate, because the provider reported none.
    pub is_estimated: bool,
}

impl Usage {
    /// The usage of so many tokens, of whose kinds nothing is known.
    pub fn reported(prompt: u64, completion: u64) -> Self {
        Self { prompt, completion, ..Self::default() }
    }

    /// The gateway's estimate of so many tokens.
    pub fn estimated(prompt: u64, completion: u64) -> Self {
        Self { is_estimated: true, ..Self::reported(prompt, completion) }
    }
}
