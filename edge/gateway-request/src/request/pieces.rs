//! Writes bodies composed of slices of another body: long parts are shared and short ones copied, so a large body is in
//! memory once however often it is sent.

use std::ops::Range;

use bytes::Bytes;
use openai::dialect::TextSink;
use upstream::BodyPieces;

/// Writes a body of which most is in `shared`.
///
/// Text that also occurs there is shared, whether it is written in parts or byte by byte, so a body that is rewritten
/// in a few places becomes a few long slices.
pub struct PieceWriter<'b> {
    /// `None` for a small body, which is copied entirely.
    shared: Option<&'b Bytes>,
    done: Vec<Bytes>,
    done_bytes: usize,
    /// The slice of the shared body that follows `done` and may still grow.
    tail: Range<usize>,
    /// The copied bytes that follow `tail`.
    last: Vec<u8>,
    /// The start, in `last` and in the shared body, of a suffix of `last` that also occurs there.
    run: Option<(usize, usize)>,
}

/// Bytes that differ from a large body. They hold the body, and with it the memory that it was granted: without any
/// shared piece, nothing else would.
struct CopiedPiece {
    bytes: Vec<u8>,
    _body: Bytes,
}

impl AsRef<[u8]> for CopiedPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<'b> PieceWriter<'b> {
    /// Creates a writer that shares the text of `body`, if it is larger than [`limits::SMALL_BODY_BYTES`].
    pub fn new(body: &'b Bytes) -> Self {
        let is_small = body.len() <= limits::SMALL_BODY_BYTES;
        let capacity = if is_small { body.len() + limits::ADDED_BYTES } else { limits::ADDED_BYTES };
        Self {
            shared: (!is_small).then_some(body),
            done: Vec::new(),
            done_bytes: 0,
            tail: 0..0,
            last: Vec::with_capacity(capacity),
            run: None,
        }
    }

    /// Returns the written body in its pieces, in their order.
    pub fn finish(mut self) -> BodyPieces {
        self.end_last();
        BodyPieces::from(self.done)
    }

    /// Writes `text`. `place` is its offset in the shared body, if it is a slice of it.
    fn write(&mut self, body: &Bytes, text: &[u8], place: Option<usize>) {
        let goes_on = |at: usize| body.get(at..).is_some_and(|rest| rest.starts_with(text));
        if self.last.is_empty() && !self.tail.is_empty() && (place == Some(self.tail.end) || goes_on(self.tail.end)) {
            self.tail.end += text.len();
            return;
        }
        let known = self.run.filter(|(start, from)| goes_on(from + self.last.len() - start));
        self.run = known.or_else(|| place.map(|place| (self.last.len(), place)));
        match self.run {
            Some((start, from)) if self.last.len() - start + text.len() >= limits::SHARED_PIECE_BYTES => {
                let len = self.last.len() - start + text.len();
                self.last.truncate(start);
                self.end_last();
                self.tail = from..from + len;
            }
            _ => self.last.extend_from_slice(text),
        }
    }

    fn end_last(&mut self) {
        self.run = None;
        let tail = std::mem::take(&mut self.tail);
        if let Some(body) = self.shared.filter(|_| !tail.is_empty()) {
            self.done_bytes += tail.len();
            self.done.push(body.slice(tail));
        }
        if !self.last.is_empty() {
            let bytes = std::mem::take(&mut self.last);
            self.done_bytes += bytes.len();
            self.done.push(match self.shared {
                Some(body) => Bytes::from_owner(CopiedPiece { bytes, _body: body.clone() }),
                None => bytes.into(),
            });
        }
    }
}

impl TextSink for PieceWriter<'_> {
    fn len(&self) -> usize {
        self.done_bytes + self.tail.len() + self.last.len()
    }

    fn push(&mut self, byte: u8) {
        match self.shared {
            None => self.last.push(byte),
            Some(body) => self.write(body, &[byte], None),
        }
    }

    fn extend_from_slice(&mut self, text: &[u8]) {
        let Some(body) = self.shared else { return self.last.extend_from_slice(text) };
        let range = body.as_ptr_range();
        let place = range.contains(&text.as_ptr()).then(|| text.as_ptr().addr() - range.start.addr());
        self.write(body, text, place);
    }

    fn pop(&mut self) {
        if self.last.pop().is_none() {
            self.tail.end = self.tail.end.saturating_sub(1).max(self.tail.start);
        }
        self.run = self.run.filter(|(start, _)| *start < self.last.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_body_is_one_piece() {
        let body = Bytes::from(vec![b'x'; limits::SMALL_BODY_BYTES]);
        let mut writer = PieceWriter::new(&body);
        writer.push(b'{');
        writer.extend_from_slice(&body[1..]);
        assert_eq!((writer.len(), writer.finish().into_inner().len()), (limits::SMALL_BODY_BYTES, 1));
    }

    #[test]
    fn long_parts_of_a_large_body_are_shared() {
        let body = Bytes::from((0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect::<Vec<_>>());
        let mut writer = PieceWriter::new(&body);
        writer.push(b'{');
        writer.extend_from_slice(&body[10..20]);
        writer.extend_from_slice(&body[100_000..900_000]);
        // Equally long, but not a slice of the body.
        let copy = body[..10_000].to_vec();
        writer.extend_from_slice(&copy);
        writer.extend_from_slice(&body[990_000..]);
        let expected = [b"{", &body[10..20], &body[100_000..900_000], &body[..10_000], &body[990_000..]].concat();
        assert_eq!(writer.len(), expected.len());
        let pieces = writer.finish();
        assert!(pieces.joined() == expected && pieces.len() == expected.len());
        let pieces = pieces.into_inner();
        let is_shared = |piece: &Bytes| body.as_ptr_range().contains(&piece.as_ptr());
        let shared: Vec<_> = pieces.iter().map(|piece| (piece.len(), is_shared(piece))).collect();
        assert_eq!(shared, [(11, false), (800_000, true), (10_000, false), (10_000, true)]);
    }

    #[test]
    fn what_was_copied_holds_the_body_and_its_memory() {
        let body = Bytes::from(vec![b'x'; limits::SMALL_BODY_BYTES + 1]);
        let mut writer = PieceWriter::new(&body);
        writer.extend_from_slice(b"something else altogether");
        let pieces = writer.finish();
        assert_eq!(pieces.joined(), "something else altogether");
        assert!(!body.is_unique());
        drop(pieces);
        assert!(body.is_unique());
    }

    #[test]
    fn what_stays_as_it_was_is_shared_whatever_its_parts() {
        let one = br#"{"role":"user","content":"x"},"#;
        let body = Bytes::from(one.repeat(10_000));
        let mut writer = PieceWriter::new(&body);
        for (at, chunk) in body.chunks(one.len()).enumerate() {
            // Rewritten as a dialect does: punctuation and names byte by byte, values as slices.
            writer.push(b'{');
            if at == 5_000 {
                writer.extend_from_slice(b"\"role\":\"system\"");
            } else {
                writer.extend_from_slice(&chunk[1..14]);
            }
            writer.push(b',');
            writer.extend_from_slice(b"\"content\":");
            writer.extend_from_slice(&chunk[25..28]);
            writer.push(b'}');
            if at == 7_000 {
                writer.pop();
                writer.push(b'}');
            }
            writer.push(b',');
        }
        let text = String::from_utf8(body.to_vec()).unwrap();
        let (before, after) = text.split_at(5_000 * one.len());
        let expected = [before, &after.replacen("user", "system", 1)].concat();
        assert_eq!(writer.len(), expected.len());
        let pieces = writer.finish();
        assert!(pieces.joined() == expected.as_bytes());
        let copied: usize = pieces
            .into_inner()
            .iter()
            .filter(|piece| !body.as_ptr_range().contains(&piece.as_ptr()))
            .map(Bytes::len)
            .sum();
        assert!(copied < 100, "{copied} bytes are copied");
    }
}
