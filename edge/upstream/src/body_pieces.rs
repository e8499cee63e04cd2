//! Bodies that are composed of slices.

use bytes::Bytes;

/// A body composed of slices, most of which share the memory of another body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BodyPieces(Vec<Bytes>);

impl BodyPieces {
    /// Returns the length of the whole body in bytes.
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Returns whether the body has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the slices in order.
    pub fn into_inner(self) -> Vec<Bytes> {
        self.0
    }

    /// Returns the pieces joined into one.
    pub fn joined(&self) -> Bytes {
        self.0.concat().into()
    }
}

impl From<Vec<Bytes>> for BodyPieces {
    fn from(pieces: Vec<Bytes>) -> Self {
        Self(pieces)
    }
}

impl From<Bytes> for BodyPieces {
    fn from(body: Bytes) -> Self {
        Self(vec![body])
    }
}
