//! The frames of a stream in its provider's format.

use bytes::BytesMut;
use domain::usage::Ending;
use gateway_answer::sse::{ChatFrames, StreamError, StreamProgress};
use openai::usage::TokenUsage;

use super::NativeFrames;

/// Reads the events of one stream and rewrites them for the client or for translation.
#[expect(clippy::large_enum_variant, reason = "most are chat completions, which allocate nothing for this")]
pub enum AnswerFrames {
    /// A chat completion or a legacy one.
    Chat(ChatFrames),
    /// An answer that passes in its own format.
    Native(Box<NativeFrames>),
}

impl AnswerFrames {
    /// Reads the next bytes, split anywhere, and appends the events that they complete to `out`.
    pub fn push(&mut self, chunk: &[u8], out: &mut BytesMut) -> Result<StreamProgress, StreamError> {
        match self {
            Self::Chat(frames) => frames.push(chunk, out),
            Self::Native(frames) => frames.push(chunk, out),
        }
    }

    /// Ends a stream that the provider has closed. Fails if the last frame is missing.
    pub fn end(&mut self, out: &mut BytesMut) -> Result<(), StreamError> {
        match self {
            Self::Chat(frames) => frames.end(out),
            Self::Native(frames) => frames.end(out),
        }
    }

    /// Returns the usage that the provider reported, or an estimate.
    pub fn usage(&self) -> TokenUsage {
        match self {
            Self::Chat(frames) => frames.usage(),
            Self::Native(frames) => frames.usage(),
        }
    }

    /// Returns how the answer ended, as far as the provider has stated it; [`Ending::Stop`] if it has not.
    pub fn ending(&self) -> Ending {
        match self {
            Self::Chat(frames) => frames.ending(),
            Self::Native(frames) => frames.ending(),
        }
    }

    /// Returns the usage of a stream that broke off, which is exact if all of it was reported before.
    pub fn usage_so_far(&self) -> TokenUsage {
        match self {
            Self::Chat(frames) => frames.usage_so_far(),
            Self::Native(frames) => frames.usage_so_far(),
        }
    }

    /// Returns the most that a stream may use that is not read on, or its usage if all of it was reported.
    pub fn usage_at_most(&self) -> TokenUsage {
        match self {
            Self::Chat(frames) => frames.usage_at_most(),
            Self::Native(frames) => frames.usage_at_most(),
        }
    }

    /// Returns whether there were any words of the model or a usage report.
    pub fn has_content(&self) -> bool {
        match self {
            Self::Chat(frames) => frames.has_content(),
            Self::Native(frames) => frames.has_words() || frames.has_usage(),
        }
    }

    /// Returns whether the model has written anything.
    pub fn has_words(&self) -> bool {
        match self {
            Self::Chat(frames) => frames.has_words(),
            Self::Native(frames) => frames.has_words(),
        }
    }

    /// Returns whether the provider has reported usage of the answer.
    pub fn has_usage(&self) -> bool {
        match self {
            Self::Chat(frames) => frames.has_usage(),
            Self::Native(frames) => frames.has_usage(),
        }
    }

    /// Counts and logs the frames of a chat completion that were left out. Call it once, at the stream's end.
    pub fn report_left_out(&self, request_id: &str) {
        if let Self::Chat(frames) = self {
            frames.report_left_out(request_id);
        }
    }
}
