//! The frames of a stream, in the format in which its provider writes it.

use bytes::BytesMut;
use domain::usage::Ending;

use super::{super::meter::Usage, Frames, NativeFrames, Progress, StreamError};

/// Reads the events of one stream, and rewrites them for the client or for a translation.
#[expect(clippy::large_enum_variant, reason = "most are chat completions, which allocate nothing for this")]
pub(in crate::gateway) enum AnswerFrames {
    /// Of a chat completion.
    Chat(Frames),
    /// Of an answer that passes in its own format.
    Native(Box<NativeFrames>),
}

impl AnswerFrames {
    /// Reads the next bytes, cut anywhere, and appends the complete events among them to `out`.
    pub(in crate::gateway) fn push(&mut self, chunk: &[u8], out: &mut BytesMut) -> Result<Progress, StreamError> {
        match self {
            Self::Chat(frames) => frames.push(chunk, out),
            Self::Native(frames) => frames.push(chunk, out),
        }
    }

    /// Ends the stream where the provider has closed it. Fails if the last frame has not come.
    pub(in crate::gateway) fn end(&mut self, out: &mut BytesMut) -> Result<(), StreamError> {
        match self {
            Self::Chat(frames) => frames.end(out),
            Self::Native(frames) => frames.end(out),
        }
    }

    /// The usage as the provider reports it, or an estimate.
    pub(in crate::gateway) fn usage(&self) -> Usage {
        match self {
            Self::Chat(frames) => frames.usage(),
            Self::Native(frames) => frames.usage(),
        }
    }

    /// How the answer has ended, as the provider says.
    pub(in crate::gateway) fn ending(&self) -> Ending {
        match self {
            Self::Chat(frames) => frames.ending(),
            Self::Native(frames) => frames.ending(),
        }
    }

    /// The usage of a stream that broke off: exact if all of it was reported before.
    pub(in crate::gateway) fn usage_so_far(&self) -> Usage {
        match self {
            Self::Chat(frames) => frames.usage_so_far(),
            Self::Native(frames) => frames.usage_so_far(),
        }
    }

    /// Whether there have been words of the model or a usage report.
    pub(in crate::gateway) fn has_content(&self) -> bool {
        match self {
            Self::Chat(frames) => frames.has_content(),
            Self::Native(frames) => frames.has_words() || frames.has_usage(),
        }
    }

    /// Whether the model has said anything.
    pub(in crate::gateway) fn has_words(&self) -> bool {
        match self {
            Self::Chat(frames) => frames.has_words(),
            Self::Native(frames) => frames.has_words(),
        }
    }

    /// Whether the provider has reported usage.
    pub(in crate::gateway) fn has_usage(&self) -> bool {
        match self {
            Self::Chat(frames) => frames.has_usage(),
            Self::Native(frames) => frames.has_usage(),
        }
    }

    /// Counts and logs the frames of a chat completion that did not pass. To be called once, at the stream's end.
    pub(in crate::gateway) fn report_left_out(&self, request_id: &str) {
        if let Self::Chat(frames) = self {
            frames.report_left_out(request_id);
        }
    }
}
