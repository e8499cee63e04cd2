//! The outcome of an admission.

use std::time::Duration;

use super::reservation::Reservation;

/// An admitted completion.
#[derive(Debug)]
pub struct AdmittedCompletion {
    /// The completion's reservation, to be settled or released.
    pub reservation: Reservation,
    /// The account's remaining limits after this reservation.
    pub rate_limits: RateLimits,
}

/// The state of an account's rate limits, for the `x-ratelimit-*` headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimits {
    /// Completions per minute.
    pub requests: RateLimit,
    /// Tokens per UTC day.
    pub tokens: RateLimit,
}

/// The state of one rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// The limit itself.
    pub limit: u64,
    /// The remaining part of the limit.
    pub remaining: u64,
    /// The time until the whole limit is available again, if nothing more is used.
    pub reset: Duration,
}

/// Why a completion is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// The account has used up its requests of this minute.
    #[error("the requests of this minute are used up")]
    Requests {
        /// The state of the account's limits.
        rate_limits: RateLimits,
        /// The time until one more request is allowed.
        retry_after: Duration,
    },
    /// The account's remaining tokens of today do not cover the reservation.
    #[error("the tokens of this day do not suffice")]
    Tokens {
        /// The state of the account's limits.
        rate_limits: RateLimits,
        /// The time until the next UTC day.
        retry_after: Duration,
    },
    /// The account's remaining credit of this month does not cover the reservation.
    #[error("the credit of this month does not suffice")]
    Credit {
        /// The time until the next UTC month.
        retry_after: Duration,
        /// Whether other organizations share the credit.
        is_shared: bool,
    },
    /// The rest of the account's own monthly limit does not cover the reservation.
    #[error("the account's limit of this month does not suffice")]
    AccountLimit {
        /// The time until the next UTC month.
        retry_after: Duration,
    },
    /// The rest of the key's monthly limit does not cover the reservation.
    #[error("the key's limit of this month does not suffice")]
    KeyLimit {
        /// The time until the next UTC month.
        retry_after: Duration,
    },
    /// The account's budget currently cannot be checked or recorded, so nothing is served.
    #[error("the account's budget cannot be checked now")]
    Unavailable {
        /// The time after which a client may retry.
        retry_after: Duration,
    },
}

impl AdmissionError {
    /// Returns the state of the account's limits, if the refusal was for one of them.
    pub fn rate_limits(&self) -> Option<&RateLimits> {
        match self {
            Self::Requests { rate_limits, .. } | Self::Tokens { rate_limits, .. } => Some(rate_limits),
            Self::Credit { .. } | Self::AccountLimit { .. } | Self::KeyLimit { .. } | Self::Unavailable { .. } => None,
        }
    }
}
