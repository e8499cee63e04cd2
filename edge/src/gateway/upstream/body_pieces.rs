//! Bodies that are composed of slices.

use bytes::Bytes;

/// A body composed of slices, most of which share the memory of another body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::gateway) struct BodyPieces(Vec<Bytes>);

impl BodyPieces {
    pub(in crate::gateway) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    pub(in crate::gateway) fn into_inner(self) -> Vec<Bytes> {
        self.0
    }

    /// Returns the pieces joined into one.
    pub(in crate::gateway) fn joined(&self) -> Bytes {
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
