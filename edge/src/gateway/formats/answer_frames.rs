//! The frames of a stream in its provider's format.

use bytes::BytesMut;
use domain::usage::Ending;

use super::{
    super::{
        sse::{ChatFrames, StreamError, StreamProgress},
        usage::TokenUsage,
    },
    NativeFrames,
};

/// Reads the events of one stream and rewrites them for the client or for translation.
#[expect(clippy::large_enum_variant, reason = "most are chat completions, which allocate nothing for this")]
pub(in crate::gateway) enum AnswerFrames {
    Chat(ChatFrames),
    /// An answer that passes in its own format.
    Native(Box<NativeFrames>),
}

impl AnswerFrames {
    /// Reads the next bytes, split anywhere, and appends the events that they complete to `out`.
    pub(in crate::gateway) fn push(&mut self, chunk: &[u8], out: &mut BytesMut) -> Result<StreamProgress, StreamError> {
        match self {
            Self::Chat(frames) => frames.push(chunk, out),
            Self::Native(frames) => frames.push(chunk, out),
        }
    }

    /// Ends a stream that the provider has closed. Fails if the last frame is missing.
    pub(in crate::gateway) fn end(&mut self, out: &mut BytesMut) -> Result<(), StreamError> {
        match self {
            Self::Chat(frames) => frames.end(out),
            Self::Native(frames) => frames.end(out),
        }
    }

    /// Returns the usage that the provider reported, or an estimate.
    pub(in crate::gateway) fn usage(&self) -> TokenUsage {
        match self {
            Self::Chat(frames) => frames.usage(),
            Self::Native(frames) => frames.usage(),
        }
    }

    pub(in crate::gateway) fn ending(&self) -> Ending {
        match self {
            Self::Chat(frames) => frames.ending(),
            Self::Native(frames) => frames.ending(),
        }
    }

    /// Returns the usage of a stream that broke off, which is exact if all of it was reported before.
    pub(in crate::gateway) fn usage_so_far(&self) -> TokenUsage {
        match self {
            Self::Chat(frames) => frames.usage_so_far(),
            Self::Native(frames) => frames.usage_so_far(),
        }
    }

    /// Returns whether there were any words of the model or a usage report.
    pub(in crate::gateway) fn has_content(&self) -> bool {
        match self {
            Self::Chat(frames) => frames.has_content(),
            Self::Native(frames) => frames.has_words() || frames.has_usage(),
        }
    }

    /// Returns whether the model has written anything.
    pub(in crate::gateway) fn has_words(&self) -> bool {
        match self {
            Self::Chat(frames) => frames.has_words(),
            Self::Native(frames) => frames.has_words(),
        }
    }

    pub(in crate::gateway) fn has_usage(&self) -> bool {
        match self {
            Self::Chat(frames) => frames.has_usage(),
            Self::Native(frames) => frames.has_usage(),
        }
    }

    /// Counts and logs the frames of a chat completion that were left out. Call it once, at the stream's end.
    pub(in crate::gateway) fn report_left_out(&self, request_id: &str) {
        if let Self::Chat(frames) = self {
            frames.report_left_out(request_id);
        }
    }
}
