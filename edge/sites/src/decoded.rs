//! Files that are stored compressed, for clients that do not accept the encoding.
//!
//! A decoded body becomes blocks of the body cache, and its response holds one block at a time. A client that reads slowly
//! therefore occupies neither the turn nor the memory that decoding takes. A block that was evicted meanwhile is decoded
//! again.

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use domain::PayingAccount;
use fairness::{TurnPermit, budget::ByteGrant};
use futures_util::future::BoxFuture;
use http_types::{BodyError, BodySource, copy_if_small};
use limits::{BLOCK_BYTES, CACHED_BODY_BYTES, DECODED_BYTES, STORE_WAIT};
use packs::{Encoding, Span, StoredBody};

use super::{
    pack::PackData,
    packs::{PackError, reserve_read, with_store_timeout},
};

/// Set in the offsets under which blocks of decoded bodies are cached. No pack is as large.
const DECODED: u64 = 1 << 63;
/// Bits for the number of a block in a decoded body.
const INDEX_BITS: u32 = 9;
/// The number under which the length of a decoded body is cached, as eight bytes.
const LENGTH: u64 = (1 << INDEX_BITS) - 1;

const _: () =
    assert!(DECODED_BYTES / (BLOCK_BYTES as u64) < LENGTH, "the blocks of a decoded body have numbers of their own");

/// A stored body together with the encoding that it is stored in.
#[derive(Clone)]
pub(crate) struct EncodedBody {
    pub(crate) data: Arc<PackData>,
    pub(crate) whole: StoredBody,
    pub(crate) encoding: Encoding,
}

/// A block of a decoded body.
struct Block {
    bytes: Bytes,
    /// The length of the whole decoded body.
    length: u64,
}

impl EncodedBody {
    /// Decodes the body. Returns `None` if the body is larger than the edge caches, is larger than [`DECODED_BYTES`] once
    /// decoded, or cannot be decoded.
    pub(crate) async fn decode(self) -> Result<Option<DecodedBody>, PackError> {
        if self.whole.span.len > CACHED_BODY_BYTES {
            return Ok(None);
        }
        let first = self.block(0).await?;
        Ok(first.map(|Block { bytes, length }| DecodedBody { body: self, block: bytes, at: 0, length, decoding: None }))
    }

    async fn block(&self, index: u64) -> Result<Option<Block>, PackError> {
        if let Some(block) = self.cached(index) {
            return Ok(Some(block));
        }
        Box::pin(with_store_timeout(async {
            let bodies = &self.data.bodies;
            let turn = bodies.decodings.take(&self.data.owner, STORE_WAIT).await.map_err(PackError::unavailable)?;
            // Another request may have decoded the body while this one waited.
            if let Some(block) = self.cached(index) {
                return Ok(Some(block));
            }
            let grant = reserve_read(self.whole.span.len + DECODED_BYTES, &bodies.account).await?;
            let stored = self.stored().await?;
            let body = self.clone();
            let decode = move || body.decode_into_cache(&stored, index, (turn, grant));
            tokio::task::spawn_blocking(decode).await.map_err(PackError::unavailable)
        }))
        .await
    }

    /// Reads the stored bytes of the body.
    async fn stored(&self) -> Result<Vec<u8>, PackError> {
        let (bodies, span) = (&self.data.bodies, self.whole.span);
        let mut stored = Vec::with_capacity(usize::try_from(span.len).unwrap_or_default());
        while (stored.len() as u64) < span.len {
            let start = stored.len() as u64;
            let part = Span { offset: span.offset + start, len: (span.len - start).min(BLOCK_BYTES as u64) };
            let block = match bodies.cached_block(&self.data, part) {
                Some(block) => block,
                None => bodies.block(&self.data, &self.whole, start).await?,
            };
            stored.extend_from_slice(&block);
        }
        Ok(stored)
    }

    /// Decodes `stored`, caches its blocks and returns the one with number `index`. The turn and the memory are held until
    /// then, even if the client leaves before.
    fn decode_into_cache(
        &self,
        stored: &[u8],
        index: u64,
        _held: (TurnPermit<PayingAccount>, ByteGrant),
    ) -> Option<Block> {
        let decoded = packs::decoded(stored, self.encoding, DECODED_BYTES)?;
        let length = decoded.len() as u64;
        let mut wanted = Bytes::new();
        for (number, block) in (0..).zip(decoded.chunks(BLOCK_BYTES)) {
            let block = Bytes::copy_from_slice(block);
            if number == index {
                wanted = block.clone();
            }
            self.data.bodies.blocks.insert(self.key(number), block);
        }
        self.data.bodies.blocks.insert(self.key(LENGTH), Bytes::copy_from_slice(&length.to_be_bytes()));
        Some(Block { bytes: wanted, length })
    }

    fn cached(&self, index: u64) -> Option<Block> {
        let length = self.data.bodies.blocks.get(&self.key(LENGTH))?;
        let length = u64::from_be_bytes(length.as_ref().try_into().ok()?);
        // An empty body has no block.
        let bytes = if length == 0 { Bytes::new() } else { self.data.bodies.blocks.get(&self.key(index))? };
        Some(Block { bytes, length })
    }

    fn key(&self, index: u64) -> (u128, u64) {
        (self.data.number, DECODED | (self.whole.span.offset << INDEX_BITS) | index)
    }
}

/// The body of a response with a decoded file.
pub(crate) struct DecodedBody {
    body: EncodedBody,
    /// Bytes of the current block that were not sent yet.
    block: Bytes,
    /// The number of bytes sent.
    at: u64,
    length: u64,
    decoding: Option<BoxFuture<'static, Result<Option<Block>, PackError>>>,
}

impl BodySource for DecodedBody {
    fn poll_next(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Result<Bytes, BodyError>>> {
        while self.block.is_empty() {
            if self.left() == 0 {
                return Poll::Ready(None);
            }
            let body = &self.body;
            let index = self.at / BLOCK_BYTES as u64;
            let decoding = self.decoding.get_or_insert_with(|| {
                let body = body.clone();
                Box::pin(async move { body.block(index).await })
            });
            let decoded = ready!(decoding.as_mut().poll(cx));
            self.decoding = None;
            // The connection is cut on an error, so that the visitor does not take the part for the whole.
            let cut = |why: PackError| Poll::Ready(Some(Err(why.into())));
            let block = match decoded {
                Ok(Some(block)) => block.bytes,
                Ok(None) => return cut(PackError::unavailable("a body does not decode any longer")),
                Err(error) => return cut(error),
            };
            let skipped = usize::try_from(self.at % BLOCK_BYTES as u64).unwrap_or_default();
            if skipped >= block.len() {
                return cut(PackError::unavailable("a decoded body is shorter than it was"));
            }
            self.block = block.slice(skipped..);
        }
        let is_at_start = self.at.is_multiple_of(BLOCK_BYTES as u64);
        let bytes = self.block.split_to(self.block.len().min(most));
        self.at += bytes.len() as u64;
        let is_whole = is_at_start && self.block.is_empty();
        if self.block.is_empty() {
            // Even an empty slice keeps the memory of its block.
            self.block = Bytes::new();
        }
        Poll::Ready(Some(Ok(if is_whole { bytes } else { copy_if_small(bytes) })))
    }

    fn left(&self) -> u64 {
        self.length - self.at
    }

    fn park(&mut self) {
        self.block = Bytes::new();
    }
}
