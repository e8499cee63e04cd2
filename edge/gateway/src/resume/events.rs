//! The ids of a stream's events, with which a disconnected client reports what it received.
//!
//! An id consists of the exchange's tag and the position of its event in the stream: `5f3a9c07-1234`. This allows
//! finding the rest without an index, and events of different exchanges are never confused. Only events have ids.
//! Comments depend on when they were sent and are removed here; besides, a client that follows the standard strictly
//! would report an id without data as an event.

use std::fmt::Write as _;

use bytes::BytesMut;
use gateway_answer::sse::EventSearch;

/// Assigns ids to the events of a stream.
pub(super) struct EventIds {
    tag: String,
    /// The beginning of an incomplete event.
    pending: BytesMut,
    search: EventSearch,
}

impl EventIds {
    pub(super) fn new(tag: String) -> Self {
        Self { tag, pending: BytesMut::new(), search: EventSearch::default() }
    }

    /// Appends to `out` the events that the next bytes complete. `out` begins at `start` in the stream.
    pub(super) fn push(&mut self, piece: &[u8], start: u64, out: &mut BytesMut) {
        self.pending.extend_from_slice(piece);
        while let Some(len) = self.search.end_of_event(&self.pending) {
            self.search = EventSearch::default();
            let event = self.pending.split_to(len);
            if has_data(&event) {
                let at = start + out.len() as u64;
                // Writing to memory cannot fail.
                let _ = writeln!(out, "id: {}-{at}", self.tag);
                out.extend_from_slice(&event);
            }
        }
    }
}

/// Returns whether an event has data and is not only a comment.
fn has_data(event: &[u8]) -> bool {
    event.split(|byte| matches!(byte, b'\n' | b'\r')).any(|line| line.starts_with(b"data"))
}

/// Parses the position in an id, if it has this tag.
pub(super) fn parse_position(id: &str, tag: &str) -> Option<u64> {
    id.strip_prefix(tag)?.strip_prefix('-')?.parse().ok()
}

/// Returns the length of the event at the beginning of `stream`, if its id matches its position.
pub(super) fn event_length(stream: &[u8], tag: &str, place: u64) -> Option<usize> {
    let line = format!("id: {tag}-{place}\n");
    stream.starts_with(line.as_bytes()).then(|| EventSearch::default().end_of_event(stream)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_an_id_wherever_the_stream_is_cut() {
        let sent =
            b"data: {\"a\":1}\n\n: keep-alive\n\nevent: x\ndata: 2\n\n: said\ndata: 3\r\n\r\n: bye\n\ndata: [DONE]\n\n";
        let whole = "id: t-0\ndata: {\"a\":1}\n\nid: t-23\nevent: x\ndata: 2\n\nid: t-50\n: said\ndata: 3\r\n\r\nid: t-77\n\
                     data: [DONE]\n\n";
        for size in 1..sent.len() {
            let (mut ids, mut stream) = (EventIds::new("t".to_owned()), BytesMut::new());
            for piece in sent.chunks(size) {
                let mut out = BytesMut::new();
                ids.push(piece, stream.len() as u64, &mut out);
                stream.extend_from_slice(&out);
            }
            assert_eq!(std::str::from_utf8(&stream).unwrap(), whole, "{size}");
        }
        let rest = |id: &str| {
            let place = parse_position(id, "t")?;
            let stream = whole.as_bytes().get(usize::try_from(place).ok()?..)?;
            event_length(stream, "t", place).map(|len| stream[len..].to_vec())
        };
        assert!(rest("t-50").unwrap().starts_with(b"id: t-77\n"));
        assert_eq!(rest("t-77"), Some(Vec::new()));
        for wrong in ["t-1", "t-51", "u-0", "t-", "t--1", "0", "", "t-99999999999999999999", "t-500"] {
            assert_eq!(rest(wrong), None, "{wrong}");
        }
    }
}
