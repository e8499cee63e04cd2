//! The endings of completions.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};

/// The way a completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Ending {
    /// The model finished, or reached a stop sequence.
    Stop,
    /// The response reached its maximum number of tokens.
    Length,
    /// The model called tools.
    ToolCalls,
    /// A filter of the provider stopped the response.
    ContentFilter,
    /// The client disconnected before the end of the response.
    ClientGone,
    /// The gateway stopped it: the response was too large, or an edge shut down.
    Cut,
    /// The provider failed in the middle of the response.
    ProviderError,
    /// The edge died and the ending is unknown: the reservation was charged.
    Lost,
}

impl Ending {
    const ALL: [Self; 8] = [
        Self::Stop,
        Self::Length,
        Self::ToolCalls,
        Self::ContentFilter,
        Self::ClientGone,
        Self::Cut,
        Self::ProviderError,
        Self::Lost,
    ];

    /// Returns the ending for a `finish_reason`, or its equivalent in another format.
    pub fn from_reason(reason: &[u8]) -> Self {
        match reason {
            b"length" | b"model_length" | b"max_tokens" | b"max_output_tokens" => Self::Length,
            b"tool_calls" | b"function_call" | b"tool_use" => Self::ToolCalls,
            b"content_filter" | b"refusal" => Self::ContentFilter,
            _ => Self::Stop,
        }
    }

    /// Returns the number stored in usage records.
    pub fn number(self) -> i16 {
        match self {
            Self::Stop => 1,
            Self::Length => 2,
            Self::ToolCalls => 3,
            Self::ContentFilter => 4,
            Self::ClientGone => 5,
            Self::Cut => 6,
            Self::ProviderError => 7,
            Self::Lost => 8,
        }
    }

    /// Returns the ending with this number, or `None` for one of a later version.
    pub fn from_number(number: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|ending| ending.number() == number)
    }

    /// Returns the API's word for the ending.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::ClientGone => "client_gone",
            Self::Cut => "cut",
            Self::ProviderError => "provider_error",
            Self::Lost => "lost",
        }
    }
}

/// Deserializes an ending; one that only a later version knows becomes `None`.
pub(super) fn deserialize_known<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Ending>, D::Error> {
    let word = Option::<Cow<'_, str>>::deserialize(from)?;
    Ok(Ending::ALL.into_iter().find(|ending| word.as_deref() == Some(ending.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_have_words_and_numbers_of_their_own() {
        for (at, ending) in Ending::ALL.into_iter().enumerate() {
            assert_eq!(serde_json::to_value(ending).unwrap(), ending.as_str());
            assert_eq!(Ending::from_number(ending.number()), Some(ending));
            assert_eq!(usize::try_from(ending.number()).unwrap(), at + 1);
        }
        assert_eq!(Ending::from_number(99), None);
        for (reason, ending) in [("stop", Ending::Stop), ("function_call", Ending::ToolCalls), ("eos", Ending::Stop)] {
            assert_eq!(Ending::from_reason(reason.as_bytes()), ending);
        }
    }
}
