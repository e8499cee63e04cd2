//! Bytes of a response in flight, with their memory grant.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use fairness::budget::ByteGrant;

/// Bytes of a response in flight. The grant is released with the last reference.
#[derive(Debug, Default)]
pub(crate) struct ChargedChunk {
    bytes: Bytes,
    /// The grant that the bytes are charged to; `None` if a later chunk of the same block has it.
    _grant: Option<ByteGrant>,
    /// Lives as long as any of the bytes.
    _token: Option<Arc<()>>,
}

impl ChargedChunk {
    /// Creates a chunk of bytes charged to `grant`. `token` is released together with them.
    pub(crate) fn new(bytes: Bytes, grant: Option<ByteGrant>, token: Option<Arc<()>>) -> Self {
        Self { bytes, _grant: grant, _token: token }
    }
}

impl Buf for ChargedChunk {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        // The consumer may keep the empty chunk for a while.
        if self.bytes.is_empty() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use fairness::budget::{BudgetLimits, ByteBudget};

    use super::*;

    #[test]
    fn who_has_taken_the_last_byte_holds_nothing() {
        let budget = ByteBudget::new(BudgetLimits { total: 100, client: 100, connection: 100 });
        let (token, grant) = (Arc::new(()), budget.account(None).try_take(10).unwrap());
        let mut chunk = ChargedChunk::new(Bytes::from_static(b"0123456789"), Some(grant), Some(token.clone()));
        chunk.advance(9);
        assert_eq!((chunk.chunk(), budget.used(), Arc::strong_count(&token)), (&b"9"[..], 10, 2));
        chunk.advance(1);
        assert_eq!((chunk.remaining(), budget.used(), Arc::strong_count(&token)), (0, 0, 1));
    }
}
