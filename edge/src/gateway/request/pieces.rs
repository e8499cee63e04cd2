//! A body that is written of slices of another one: what is long is shared, what is short is copied. So a large body is in
//! memory once, however often it is sent.

use bytes::Bytes;

use crate::limits;

/// The pieces of a body, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::gateway) struct Pieces(Vec<Bytes>);

impl Pieces {
    /// The bytes of all pieces.
    pub(in crate::gateway) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// The pieces.
    pub(in crate::gateway) fn into_inner(self) -> Vec<Bytes> {
        self.0
    }

    /// All of it in one piece.
    #[cfg(any(test, fuzzing))]
    pub(in crate::gateway) fn joined(&self) -> Bytes {
        self.0.concat().into()
    }
}

impl From<Bytes> for Pieces {
    fn from(body: Bytes) -> Self {
        Self(vec![body])
    }
}

/// Writes a body, of which most is in `shared`.
pub(in crate::gateway) struct PieceWriter<'b> {
    /// `None` where everything is copied, because all of it is little.
    shared: Option<&'b Bytes>,
    done: Vec<Bytes>,
    done_bytes: usize,
    last: Vec<u8>,
}

impl<'b> PieceWriter<'b> {
    /// A writer of nothing yet.
    pub(in crate::gateway) fn new(body: &'b Bytes) -> Self {
        let is_small = body.len() <= limits::SMALL_BODY_BYTES;
        let capacity = if is_small { body.len() + limits::ADDED_BYTES } else { limits::ADDED_BYTES };
        Self {
            shared: (!is_small).then_some(body),
            done: Vec::new(),
            done_bytes: 0,
            last: Vec::with_capacity(capacity),
        }
    }

    /// Bytes that were written.
    pub(in crate::gateway) fn len(&self) -> usize {
        self.done_bytes + self.last.len()
    }

    pub(in crate::gateway) fn push(&mut self, byte: u8) {
        self.last.push(byte);
    }

    /// Writes `text`: as a slice of the shared body where it is a long part of that, else as a copy.
    pub(in crate::gateway) fn extend_from_slice(&mut self, text: &[u8]) {
        let is_part = |body: &&Bytes| body.as_ptr_range().contains(&text.as_ptr());
        match self.shared.filter(|body| text.len() >= limits::SHARED_PIECE_BYTES && is_part(body)) {
            Some(body) => {
                self.end_last();
                self.done_bytes += text.len();
                self.done.push(body.slice_ref(text));
            }
            None => self.last.extend_from_slice(text),
        }
    }

    /// Writes `text`, which is no part of the shared body, without a copy of it where it is long.
    pub(in crate::gateway) fn append(&mut self, text: Vec<u8>) {
        if self.shared.is_none() || text.len() < limits::SHARED_PIECE_BYTES {
            return self.last.extend_from_slice(&text);
        }
        self.end_last();
        self.done_bytes += text.len();
        self.done.push(text.into());
    }

    /// The body.
    pub(in crate::gateway) fn finish(mut self) -> Pieces {
        self.end_last();
        Pieces(self.done)
    }

    fn end_last(&mut self) {
        if !self.last.is_empty() {
            let last = std::mem::take(&mut self.last);
            self.done_bytes += last.len();
            self.done.push(last.into());
        }
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
        // As long, and no part of it.
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
}
