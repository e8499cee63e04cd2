//! The failures of streams.

use gateway_request::error::{ErrorReport, ProviderError, RequestFacts};
use openai::json::JsonError;

/// The reason that a provider's stream fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The provider sent an error in the stream. The report is empty once the model has written words.
    #[error("the provider reported an error")]
    Reported(ErrorReport),
    /// A line is neither a comment nor a field of an event, like an error in bare text or bare JSON.
    #[error("a line is no field of an event")]
    NoEvent(ErrorReport),
    /// The data of an event is not the JSON object that it has to be.
    #[error("a frame is not JSON")]
    InvalidJson,
    /// An event exceeds the limit of its format, or a translation would hold too much of the answer.
    #[error("a frame is too large")]
    TooLarge,
    /// The provider ended the stream before the frame that completes the answer.
    #[error("the stream ended without its last frame")]
    CutOff,
    /// The stream is complete, but it had no choices, or a content filter left none of their words.
    #[error("the stream ended, and the model had said nothing")]
    NoAnswer,
    /// The memory for answers has no room for the parts that are repeated at the end of the stream.
    #[error("there is no memory for what has to be said again at its end")]
    NoMemory,
}

impl StreamError {
    /// Returns the client's error. `is_charged` is whether usage was reported.
    pub fn to_provider_error(self, is_charged: bool, facts: &RequestFacts) -> ProviderError {
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
