//! The outcome of asking for a completion to be admitted.

use std::time::Duration;

use super::reservation::Reservation;

/// An admitted completion.
#[derive(Debug)]
pub struct Admission {
    /// The completion's reservation, to be settled or released.
    pub reservation: Reservation,
    /// The rest of the account's limits, after this reservation.
    pub rate_limits: RateLimits,
}

/// The state of an account's rate limits, for the `x-ratelimit-*` headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimits {
    /// Completions in a minute.
    pub requests: RateLimit,
    /// Tokens in a UTC day.
    pub tokens: RateLimit,
}

/// The state of one rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// The most that is allowed.
    pub limit: u64,
    /// The part of the limit that is left.
    pub remaining: u64,
    /// The time until all of the limit is available again, if nothing more is used.
    pub reset: Duration,
}

/// Why a completion is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// The account has made as many requests as it may in a minute.
    #[error("the requests of this minute are used up")]
    Requests {
        /// The state of the account's limits.
        rate_limits: RateLimits,
        /// The time until one more request is allowed.
        retry_after: Duration,
    },
    /// The tokens that the account has left today do not cover the reservation.
    #[error("the tokens of this day do not suffice")]
    Tokens {
        /// The state of the account's limits.
        rate_limits: RateLimits,
        /// The time until the next UTC day.
        retry_after: Duration,
    },
    /// The credit that the account has left this month does not cover the reservation.
    #[error("the credit of this month does not suffice")]
    Credit {
        /// The time until the next UTC month.
        retry_after: Duration,
        /// Whether other organizations use the same credit.
        is_shared: bool,
    },
    /// What the account's own limit of this month has left does not cover the reservation.
    #[error("the account's limit of this month does not suffice")]
    AccountLimit {
        /// The time until the next UTC month.
        retry_after: Duration,
    },
    /// What the key's limit of this month has left does not cover the reservation.
    #[error("the key's limit of this month does not suffice")]
    KeyLimit {
        /// The time until the next UTC month.
        retry_after: Duration,
    },
    /// The account's budget cannot be checked or recorded now, so nothing is served.
    #[error("the account's budget cannot be checked now")]
    Unavailable {
        /// The time after which a client may try again.
        retry_after: Duration,
    },
}

impl AdmissionError {
    /// The state of the account's limits, where the refusal was for one of them.
    pub fn rate_limits(&self) -> Option<&RateLimits> {
        match self {
            Self::Requests { rate_limits, .. } | Self::Tokens { rate_limits, .. } => Some(rate_limits),
            Self::Credit { .. } | Self::AccountLimit { .. } | Self::KeyLimit { .. } | Self::Unavailable { .. } => None,
        }
    }
}
