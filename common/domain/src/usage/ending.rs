//! How a completion ended.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};

/// How a completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Ending {
    /// The model had said what it wanted to, or came to a stop sequence.
    Stop,
    /// The answer had as many tokens as it could have.
    Length,
    /// The model called tools.
    ToolCalls,
    /// A filter of the provider's ended the answer.
    ContentFilter,
    /// The client had disconnected before the answer's end.
    ClientGone,
    /// The gateway ended it: the answer was too large, or an edge stopped.
    Cut,
    /// The provider failed in the middle of the answer.
    ProviderError,
    /// The edge died, and nobody knows how it ended: it was charged by what was reserved.
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

    /// Returns what a `finish_reason` stands for, or its like in another format.
    pub fn of_reason(reason: &[u8]) -> Self {
        match reason {
            b"length" | b"model_length" | b"max_tokens" | b"max_output_tokens" => Self::Length,
            b"tool_calls" | b"function_call" | b"tool_use" => Self::ToolCalls,
            b"content_filter" | b"refusal" => Self::ContentFilter,
            _ => Self::Stop,
        }
    }

    /// The number that stands for it where usage is recorded.
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

    /// The ending with this number; `None` for one of a later version.
    pub fn from_number(number: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|ending| ending.number() == number)
    }

    /// The word of the API for it.
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

/// Reads an ending, and one that a later version wrote as none.
pub(super) fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Ending>, D::Error> {
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
            assert_eq!(Ending::of_reason(reason.as_bytes()), ending);
        }
    }
}
