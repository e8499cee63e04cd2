//! Splits a stream that arrives in pieces into events.

use bytes::{Buf as _, BytesMut};

use super::{EventSearch, StreamError, StreamProgress};

/// Splits a stream into events, wherever the pieces are cut. An event that arrives in one piece is not copied.
#[derive(Default)]
pub struct EventSplitter {
    /// The beginning of an incomplete event.
    pending: BytesMut,
    search: EventSearch,
}

impl EventSplitter {
    /// Passes each event that `chunk` completes to `read`, until one is the last. Fails with `read`, or beyond `most`
    /// bytes.
    pub fn push(
        &mut self,
        chunk: &[u8],
        most: usize,
        mut read: impl FnMut(&[u8]) -> Result<StreamProgress, StreamError>,
    ) -> Result<StreamProgress, StreamError> {
        if self.pending.is_empty() {
            let (used, progress) = self.split(chunk, &mut read)?;
            self.pending.extend_from_slice(chunk.get(used..).unwrap_or_default());
            return self.hold(most, progress);
        }
        self.pending.extend_from_slice(chunk);
        let mut pending = std::mem::take(&mut self.pending);
        let (used, progress) = self.split(&pending, &mut read)?;
        pending.advance(used);
        self.pending = pending;
        self.hold(most, progress)
    }

    /// Passes the incomplete event to `read` as if it had ended. Returns `None` if there is none.
    pub fn finish(
        &mut self,
        read: impl FnMut(&[u8]) -> Result<StreamProgress, StreamError>,
    ) -> Option<Result<StreamProgress, StreamError>> {
        (!self.pending.is_empty()).then(|| self.push(b"\n\n", usize::MAX, read))
    }

    /// Passes the complete events at the beginning of `text` to `read`. Returns their length.
    fn split(
        &mut self,
        text: &[u8],
        read: &mut impl FnMut(&[u8]) -> Result<StreamProgress, StreamError>,
    ) -> Result<(usize, StreamProgress), StreamError> {
        let mut start = 0;
        loop {
            let rest = text.get(start..).unwrap_or_default();
            let Some(len) = self.search.end_of_event(rest) else { return Ok((start, StreamProgress::Ongoing)) };
            self.search = EventSearch::default();
            start += len;
            if read(rest.get(..len).unwrap_or_default())? == StreamProgress::Complete {
                return Ok((start, StreamProgress::Complete));
            }
        }
    }

    fn hold(&self, most: usize, progress: StreamProgress) -> Result<StreamProgress, StreamError> {
        match progress {
            StreamProgress::Ongoing if self.pending.len() > most => Err(StreamError::TooLarge),
            progress => Ok(progress),
        }
    }
}
