//! A response body in pieces, read from the pack while it is sent.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use fairness::budget::{BudgetAccount, ByteGrant};
use futures_util::future::BoxFuture;
use http_types::{BodyError, BodyOrigin, BodySource, copy_if_small};
use limits::{BLOCK_BYTES, CACHED_BODY_BYTES, READ_AHEAD_BLOCKS, READ_AHEAD_PACE, SMALL_READ_BYTES};
use packs::{Span, StoredBody};
use tokio::time::Instant;

use super::{
    cache::BodyCache,
    pack::PackData,
    packs::{PackError, with_store_timeout},
};

/// A part of a body that is not sent from memory as a whole.
pub(crate) enum BodyPiece {
    /// Bytes in memory.
    Bytes(Bytes),
    /// The range `part` of the pack's data, which lies in `whole`, a form of a file.
    Span { part: Span, whole: StoredBody },
}

/// A body that is read piece by piece. The next read starts only when the previous one was consumed, so the visitor's
/// pace limits the store reads. A client that consumes without delay gets larger reads, as far as spare memory allows.
pub(crate) struct PieceReader {
    data: Arc<PackData>,
    queue: VecDeque<BodyPiece>,
    left: u64,
    block: Bytes,
    /// Whether `block` is only a part of its allocation.
    is_part: bool,
    /// The offset in the pack of the rest of `block`, and its form; `None` for bytes that are not from the pack.
    place: Option<(u64, StoredBody)>,
    reading: Option<BoxFuture<'static, Result<Bytes, PackError>>>,
    /// The account for reads beyond the requested block; `None` disables reading ahead.
    account: Option<BudgetAccount>,
    step: u64,
    read_at: Option<Instant>,
}

/// Bytes that were read ahead. They hold their grant until the last reference is dropped.
struct ReadAheadBytes {
    bytes: Bytes,
    _grant: ByteGrant,
}

impl AsRef<[u8]> for ReadAheadBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl BodyPiece {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Span { part, .. } => part.len,
        }
    }
}

impl PieceReader {
    /// Creates a body from `queue`, read in steps of [`BLOCK_BYTES`], or larger ones once reading ahead is allowed.
    pub(crate) fn new(data: Arc<PackData>, queue: VecDeque<BodyPiece>) -> Self {
        let left = queue.iter().map(BodyPiece::len).sum();
        let (account, read_at) = Default::default();
        let (block, is_part, place, reading) = (Bytes::new(), false, None, None);
        Self { data, queue, left, block, is_part, place, reading, account, step: 1, read_at }
    }

    /// Reads the first block from the pack, so that an unavailable store is detected before the response head is sent.
    pub(crate) async fn begin(&mut self) -> Result<(), PackError> {
        // The preface of the first part of a multipart response.
        let preface = match self.queue.pop_front() {
            Some(BodyPiece::Bytes(bytes)) => Some(bytes),
            Some(span) => {
                self.queue.push_front(span);
                None
            }
            None => None,
        };
        while self.block.is_empty() {
            if let Some(reading) = self.reading.take() {
                self.block = reading.await?;
                self.read_at = Some(Instant::now());
            } else if !self.advance(BLOCK_BYTES) {
                break;
            }
        }
        if let Some(preface) = preface {
            // Only one block is held at a time, so this one is read again.
            self.park();
            self.block = Bytes::new();
            self.queue.push_front(BodyPiece::Bytes(preface));
        }
        Ok(())
    }

    /// Starts reading the next piece, or takes it from memory. Returns `false` when there is none.
    fn advance(&mut self, most: usize) -> bool {
        match self.queue.pop_front() {
            None => return false,
            Some(BodyPiece::Bytes(bytes)) => {
                self.block = bytes;
                self.is_part = false;
                self.place = None;
            }
            Some(BodyPiece::Span { part: Span { len: 0, .. }, .. }) => {}
            Some(BodyPiece::Span { part, whole }) if whole.span.len <= CACHED_BODY_BYTES => {
                self.advance_cached(part, whole);
            }
            Some(BodyPiece::Span { part, whole }) => self.advance_uncached(part, whole, most),
        }
        true
    }

    /// Starts the next read of an uncached body. Only whole blocks can be checked, so the excess is dropped.
    fn advance_uncached(&mut self, part: Span, whole: StoredBody, most: usize) {
        let (block, start) = BodyCache::block_at(whole.span, part.offset);
        let skipped = part.offset - block.offset;
        let left = (skipped + part.len).div_ceil(BLOCK_BYTES as u64) * BLOCK_BYTES as u64;
        let (blocks, wanted, grant) = self.next_step(left.min(whole.span.len - start), most);
        let len = (blocks - skipped.min(blocks)).min(part.len).min(wanted);
        self.put_back(Span { offset: part.offset + len, len: part.len - len }, &whole);
        self.place = Some((part.offset, whole.clone()));
        self.is_part = len < blocks;
        let data = self.data.clone();
        self.reading = Some(Box::pin(async move {
            let bytes = with_store_timeout(data.bodies.packs.read(&data.id, &whole, start, blocks)).await?;
            let bytes = match grant {
                Some(grant) => Bytes::from_owner(ReadAheadBytes { bytes, _grant: grant }),
                None => bytes,
            };
            let bytes =
                slice_block(&bytes, skipped, len).ok_or_else(|| PackError::unavailable("a read is too short"))?;
            // A slow reader of small parts must not hold a whole block.
            Ok(if len <= SMALL_READ_BYTES as u64 { copy_if_small(bytes) } else { bytes })
        }));
    }

    /// Returns the size of the next read, how much to pass on, and the grant if it exceeds a block. `left` ends a
    /// block.
    fn next_step(&mut self, left: u64, most: usize) -> (u64, u64, Option<ByteGrant>) {
        let took = self.read_at.take().map(|read_at| read_at.elapsed());
        self.step = match took {
            Some(took) if took <= READ_AHEAD_PACE => (2 * self.step).min(READ_AHEAD_BLOCKS),
            _ => 1,
        };
        let block = BLOCK_BYTES as u64;
        if most < SMALL_READ_BYTES {
            return (left.min(block), SMALL_READ_BYTES as u64, None);
        }
        if let Some(account) = &self.account {
            let len = left.min(self.step * block);
            if len > block
                && let Ok(grant) = account.try_take_spare(len)
            {
                return (len, len, Some(grant));
            }
        }
        self.step = 1;
        (left.min(block), block, None)
    }

    /// Takes the next block of a cacheable body from the cache, or starts to read it.
    fn advance_cached(&mut self, part: Span, whole: StoredBody) {
        let (block, start) = BodyCache::block_at(whole.span, part.offset);
        let skipped = part.offset - block.offset;
        let len = (block.len - skipped).min(part.len);
        self.put_back(Span { offset: part.offset + len, len: part.len - len }, &whole);
        self.place = Some((part.offset, whole.clone()));
        self.is_part = len < block.len;
        let remembered = self.data.bodies.cached_block(&self.data, block);
        if let Some(bytes) = remembered.and_then(|bytes| slice_block(&bytes, skipped, len)) {
            self.block = bytes;
            return;
        }
        let data = self.data.clone();
        self.reading = Some(Box::pin(async move {
            let bytes = data.bodies.block(&data, &whole, start).await?;
            slice_block(&bytes, skipped, len).ok_or_else(|| PackError::unavailable("a block is shorter than it was"))
        }));
    }

    fn put_back(&mut self, part: Span, whole: &StoredBody) {
        if part.len > 0 {
            self.queue.push_front(BodyPiece::Span { part, whole: whole.clone() });
        }
    }
}

/// Returns `len` bytes after the first `skipped`, or `None` if there are fewer.
fn slice_block(bytes: &Bytes, skipped: u64, len: u64) -> Option<Bytes> {
    // Reads are shorter than 4 GiB, so their offsets fit a `usize` everywhere.
    let (from, to) = (usize::try_from(skipped).ok()?, usize::try_from(skipped + len).ok()?);
    (to <= bytes.len()).then(|| bytes.slice(from..to))
}

impl BodySource for PieceReader {
    fn poll_next(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Result<Bytes, BodyError>>> {
        loop {
            if !self.block.is_empty() {
                let is_part = self.is_part || self.block.len() > most;
                let bytes = self.block.split_to(self.block.len().min(most));
                let bytes = if is_part { copy_if_small(bytes) } else { bytes };
                self.is_part = true;
                self.left = self.left.saturating_sub(bytes.len() as u64);
                if let Some((offset, _)) = &mut self.place {
                    *offset += bytes.len() as u64;
                }
                if self.block.is_empty() {
                    // An empty slice would still keep its allocation alive.
                    self.block = Bytes::new();
                }
                return Poll::Ready(Some(Ok(bytes)));
            }
            if let Some(reading) = &mut self.reading {
                let read = ready!(reading.as_mut().poll(cx));
                self.reading = None;
                match read {
                    Ok(bytes) => {
                        self.block = bytes;
                        self.read_at = Some(Instant::now());
                    }
                    Err(error) => {
                        // The response is aborted, so that the visitor does not mistake the part for the whole.
                        self.queue.clear();
                        return Poll::Ready(Some(Err(error.into())));
                    }
                }
            } else if !self.advance(most) {
                return Poll::Ready(None);
            }
        }
    }

    fn left(&self) -> u64 {
        self.left
    }

    fn read_ahead(&mut self, account: &BudgetAccount) {
        if self.data.bodies.packs.is_remote() {
            self.account = Some(account.clone());
        }
    }

    fn park(&mut self) {
        self.read_at = None;
        if let Some((offset, whole)) = self.place.clone()
            && !self.block.is_empty()
        {
            let part = Span { offset, len: self.block.len() as u64 };
            self.block = Bytes::new();
            self.put_back(part, &whole);
        }
    }
}

impl BodyOrigin for PackData {
    fn reopen(self: Arc<Self>, part: Span, whole: StoredBody) -> Box<dyn BodySource> {
        Box::new(PieceReader::new(self, VecDeque::from([BodyPiece::Span { part, whole }])))
    }
}
