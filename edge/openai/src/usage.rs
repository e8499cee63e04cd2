//! Token counts of a completion.

use domain::usage::TokenKinds;

/// The most tokens that a completion can use, which are reserved for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxUsage {
    /// An upper estimate of the prompt's tokens.
    pub prompt: u64,
    /// `max_tokens`, times the number of choices.
    pub completion: u64,
    /// The number of images in the prompt.
    pub images: u64,
}

/// The tokens used by a completion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Tokens of the answer, over all choices.
    pub completion: u64,
    /// Those of the tokens that have a separate price, as far as the provider reported them.
    pub kinds: TokenKinds,
    /// Whether the provider reported more tokens of a kind than the total.
    pub is_contradictory: bool,
    /// Whether the counts are the gateway's estimate because the provider reported none.
    pub is_estimated: bool,
}

impl TokenUsage {
    /// Creates a usage without known token kinds.
    pub fn reported(prompt: u64, completion: u64) -> Self {
        Self { prompt, completion, ..Self::default() }
    }

    /// Creates an estimated usage.
    pub fn estimated(prompt: u64, completion: u64) -> Self {
        Self { is_estimated: true, ..Self::reported(prompt, completion) }
    }
}
