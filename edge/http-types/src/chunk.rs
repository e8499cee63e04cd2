//! Bytes of a response in flight, with their memory grant, and the count of those that were taken.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use fairness::budget::ByteGrant;
use http::{HeaderMap, HeaderName, HeaderValue};
use limits::{HEAD_FIELD_BYTES, USUAL_HEAD_BYTES};

/// Counts bytes of a response as the connection takes them.
pub trait TakenBytes: Send + Sync {
    /// Adds bytes that were taken. The others of a chunk were dropped, as when the client resets the stream.
    fn add(&self, bytes: usize);
}

/// Bytes of a response in flight. The grant is released with the last reference.
#[derive(Default)]
pub struct ChargedChunk {
    bytes: Bytes,
    /// The grant that the bytes are charged to; `None` if a later chunk of the same block has it.
    _grant: Option<ByteGrant>,
    /// Lives as long as any of the bytes.
    _token: Option<Arc<()>>,
    /// The length of all bytes, and who counts those that are taken.
    counted: Option<(usize, Arc<dyn TakenBytes>)>,
}

impl ChargedChunk {
    /// Creates a chunk of bytes charged to `grant`. `token` is released together with them.
    pub fn new(bytes: Bytes, grant: Option<ByteGrant>, token: Option<Arc<()>>) -> Self {
        Self { bytes, _grant: grant, _token: token, counted: None }
    }

    /// Has the bytes that are taken counted, if there is a counter.
    #[must_use]
    pub fn counted_by(mut self, counter: Option<Arc<dyn TakenBytes>>) -> Self {
        self.counted = counter.map(|counter| (self.bytes.len(), counter));
        self
    }
}

impl Drop for ChargedChunk {
    fn drop(&mut self) {
        if let Some((len, counter)) = self.counted.take() {
            counter.add(len - self.bytes.len());
        }
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

/// Returns the bytes to charge for a response's head that is larger than usual; none for others.
pub fn charged_head(headers: &HeaderMap) -> u64 {
    let field = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + HEAD_FIELD_BYTES;
    let bytes = headers.iter().map(field).sum::<usize>();
    if bytes > USUAL_HEAD_BYTES { bytes as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use fairness::budget::{BudgetLimits, ByteBudget};

    use super::*;

    struct Sum(std::sync::atomic::AtomicUsize);

    impl TakenBytes for Sum {
        fn add(&self, bytes: usize) {
            self.0.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn only_heads_that_are_larger_than_usual_are_charged() {
        let head = |fields: usize, len: usize| {
            let value = HeaderValue::try_from("x".repeat(len)).unwrap();
            (0..fields).map(|n| (HeaderName::try_from(format!("x-{n:03}")).unwrap(), value.clone())).collect()
        };
        assert_eq!(charged_head(&head(16, 40)), 0);
        assert_eq!(charged_head(&head(10, 1_000)), 10 * (5 + 1_000 + HEAD_FIELD_BYTES as u64));
        // Many small fields take more than their bytes.
        assert!(charged_head(&head(400, 1)) > 400 * HEAD_FIELD_BYTES as u64);
    }

    #[test]
    fn what_was_taken_is_counted_when_a_chunk_ends() {
        let sum = Arc::new(Sum(0.into()));
        let chunk = || {
            let counter: Arc<dyn TakenBytes> = sum.clone();
            ChargedChunk::new(Bytes::from_static(b"0123456789"), None, None).counted_by(Some(counter))
        };
        let counted = || sum.0.load(std::sync::atomic::Ordering::Relaxed);
        let mut whole = chunk();
        whole.advance(4);
        assert_eq!(counted(), 0);
        whole.advance(6);
        assert_eq!(counted(), 10, "with its last byte, however long the empty chunk is kept");
        drop(whole);
        let mut part = chunk();
        part.advance(3);
        drop(part);
        assert_eq!(counted(), 13);
        drop(chunk());
        assert_eq!((counted(), Arc::strong_count(&sum)), (13, 1));
    }

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
