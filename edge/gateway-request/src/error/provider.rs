//! The errors for a request to a provider that yields no answer.

use std::time::Duration;

use openai::error_code::ErrorCode;

use super::{ApiError, RequestFault};

/// The reason why a request to a provider yields no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The provider cannot be reached, broke off, rejects the operator's key, or sent no valid answer.
    #[error("the provider failed")]
    Failed {
        /// The provider's own `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The provider was silent for too long.
    #[error("the provider took too long")]
    Timeout,
    /// The provider currently accepts no more of the operator's requests.
    #[error("the provider's rate limit is reached")]
    RateLimited {
        /// The provider's own `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The provider has failed several times in a row, and its circuit is open.
    #[error("the provider is not asked")]
    Away {
        /// The time until it is tried again.
        retry_after: Duration,
    },
    /// The provider refuses the request as invalid.
    #[error("the provider refuses the request")]
    Refused(RequestFault),
    /// The provider's answer is well-formed but has no choices or no content.
    #[error("the answer says nothing")]
    NoAnswer {
        /// Whether the provider reported usage, which is charged.
        is_charged: bool,
    },
    /// A whole answer is larger than [`limits::ANSWER_BYTES`].
    #[error("the answer is too large")]
    TooLarge,
    /// The gateway has no memory for the rest of the answer.
    #[error("there is no memory for the answer")]
    NoMemory,
    /// This edge is shutting down and no longer waits for the provider.
    #[error("the edge stops")]
    CutOff,
}

impl ProviderError {
    /// A failure without a time after which to retry.
    pub const FAILED: Self = Self::Failed { retry_after: None };
}

impl From<ProviderError> for ApiError {
    fn from(error: ProviderError) -> Self {
        match error {
            ProviderError::Timeout => {
                let message = "The model's provider took too long. Try again, or lower max_tokens.";
                Self::new(ErrorCode::UpstreamTimeout, message)
            }
            ProviderError::Failed { retry_after } => {
                let message = "The model's provider failed. Try again shortly.";
                Self { retry_after, ..Self::new(ErrorCode::UpstreamError, message) }
            }
            ProviderError::RateLimited { retry_after } => {
                let message = "The model's provider takes no more requests just now. Try again after the time that \
                               Retry-After gives.";
                Self::new(ErrorCode::UpstreamOverloaded, message)
                    .with_retry_after(retry_after.unwrap_or(limits::OVERLOAD_RETRY))
            }
            ProviderError::Away { retry_after } => {
                let message = "The model's provider has failed several times in a row, and is not asked for a moment. Try \
                               again after the time that Retry-After gives, or use another model.";
                Self::new(ErrorCode::UpstreamOverloaded, message).with_retry_after(retry_after)
            }
            ProviderError::TooLarge => {
                let message = format!(
                    "The model's answer is larger than {}. What the model has written may be charged: ask for a \
                     stream, or for less.",
                    domain::size(limits::ANSWER_BYTES as u64)
                );
                Self::new(ErrorCode::UpstreamError, message).with_final()
            }
            ProviderError::NoMemory => {
                let message = "The gateway has no memory for the rest of the answer. What the model has written may be \
                               charged: ask for a stream, for less, or for fewer answers at a time.";
                Self::new(ErrorCode::ServiceUnavailable, message)
                    .with_retry_after(Duration::from_secs(limits::FLIGHT_RETRY_SECONDS))
                    .with_final()
            }
            ProviderError::CutOff => {
                let message =
                    "The gateway is restarting, and the model's answer took longer than it could wait. Try again.";
                Self::new(ErrorCode::ServiceUnavailable, message).with_retry_after(limits::RESTART_RETRY)
            }
            ProviderError::Refused(fault) => fault.into(),
            ProviderError::NoAnswer { is_charged } => {
                let message = "The model gave no answer; a content filter of its provider may have held it back. Try \
                               again, or change the messages.";
                // A retry would be charged again.
                Self { is_final: is_charged, ..Self::new(ErrorCode::UpstreamError, message) }
            }
        }
    }
}
