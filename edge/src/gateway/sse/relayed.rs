//! A stream that is relayed at once, for tests and fuzzing.

use bytes::BytesMut;

use super::{super::usage::TokenUsage, ChatFrames, StreamError, StreamProgress};

/// The result of relaying a whole stream.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::gateway) struct RelayedStream {
    /// The output for the client.
    pub(in crate::gateway) out: Vec<u8>,
    /// How the stream ended.
    pub(in crate::gateway) end: Result<(), StreamError>,
    /// The usage to charge.
    pub(in crate::gateway) usage: TokenUsage,
    /// The usage to charge if the stream had broken off here.
    pub(in crate::gateway) usage_so_far: TokenUsage,
}

impl ChatFrames {
    /// Relays a whole stream, which arrives in these pieces.
    pub(in crate::gateway) fn relay<'p>(mut self, pieces: impl IntoIterator<Item = &'p [u8]>) -> RelayedStream {
        let mut out = BytesMut::new();
        let end = pieces.into_iter().find_map(|piece| match self.push(piece, &mut out) {
            Ok(StreamProgress::Ongoing) => None,
            Ok(StreamProgress::Complete) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        });
        let end = end.unwrap_or_else(|| self.end(&mut out));
        RelayedStream { out: out.to_vec(), end, usage: self.usage(), usage_so_far: self.usage_so_far() }
    }
}
