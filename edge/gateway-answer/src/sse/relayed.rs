//! A stream that is relayed at once, for tests and fuzzing.

use bytes::BytesMut;
use openai::usage::TokenUsage;

use super::{ChatFrames, StreamError, StreamProgress};

/// The result of relaying a whole stream.
#[derive(Debug, PartialEq, Eq)]
pub struct RelayedStream {
    /// The output for the client.
    pub out: Vec<u8>,
    /// How the stream ended.
    pub end: Result<(), StreamError>,
    /// The usage to charge.
    pub usage: TokenUsage,
    /// The usage to charge if the stream had broken off here.
    pub(crate) usage_so_far: TokenUsage,
}

impl ChatFrames {
    /// Relays a whole stream, which arrives in these pieces.
    pub fn relay<'p>(mut self, pieces: impl IntoIterator<Item = &'p [u8]>) -> RelayedStream {
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
