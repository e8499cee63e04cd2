//! Token counts of a completion.

/// The most tokens that a completion can use; this many are reserved for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxUsage {
    /// An upper estimate of the prompt's tokens.
    pub prompt: u64,
    /// `max_tokens`, times the number of choices.
    pub completion: u64,
}

/// The tokens that a completion has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Tokens of the answer, over all choices.
    pub completion: u64,
    /// Whether the counts are the gateway's estimate, because the provider reported none.
    pub is_estimated: bool,
}
