//! The failures of streams.

use super::super::{
    error::{ErrorReport, ProviderError, RequestFacts},
    json::JsonError,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::gateway) enum StreamError {
    #[error("the provider reported an error")]
    Reported(ErrorReport),
    #[error("a line is no field of an event")]
    NoEvent(ErrorReport),
    #[error("a frame is not JSON")]
    InvalidJson,
    #[error("a frame is too large")]
    TooLarge,
    #[error("the stream ended without its last frame")]
    CutOff,
    #[error("the stream ended, and the model had said nothing")]
    NoAnswer,
    #[error("there is no memory for what has to be said again at its end")]
    NoMemory,
}

impl StreamError {
    /// Returns the client's error. `is_charged` is whether usage was reported.
    pub(in crate::gateway) fn to_provider_error(self, is_charged: bool, facts: &RequestFacts) -> ProviderError {
        match self {
            Self::Reported(report) | Self::NoEvent(report) => facts.error_for_report(report),
            Self::NoAnswer => ProviderError::NoAnswer { is_charged },
            Self::NoMemory => ProviderError::NoMemory,
            Self::InvalidJson | Self::TooLarge | Self::CutOff => ProviderError::FAILED,
        }
    }
}

impl From<JsonError> for StreamError {
    fn from(_: JsonError) -> Self {
        Self::InvalidJson
    }
}
