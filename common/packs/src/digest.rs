//! Digests of stored bodies, block by block, so that a part of a large body can be verified on its own.

use std::{io::Read, sync::Arc};

use sha2::{Digest as _, Sha256};

use super::{Encoding, FileEntry, Span};

/// Bytes of a block with its own digest, which is also the unit that an edge reads, caches and sends. Part of the
/// manifest format: another size needs another field.
pub const DIGEST_BLOCK_BYTES: usize = 60 * 1024;
/// Bytes of SHA-256 that are kept of a block: enough to detect damage and to rule out a second content.
const DIGEST_BYTES: usize = 16;
/// Bytes decoded at a time to verify a compressed body by its decoded content.
const CHUNK_BYTES: usize = 64 * 1024;

/// The truncated SHA-256 of a block.
pub type BlockDigest = [u8; DIGEST_BYTES];

/// The digests of a stored body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyDigests {
    /// The digest of a body of at most one block.
    One(BlockDigest),
    /// The digest of each block, in order.
    Blocks(Arc<[BlockDigest]>),
    /// The digest of a whole body of several blocks, in a pack without block digests.
    Whole(BlockDigest),
    /// The digest and length of a compressed body's decoded content, in a pack without digests of compressed bodies.
    Decoded(Encoding, BlockDigest, u64),
}

/// A body of a pack, with its position and digests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBody {
    /// The position in the pack's data.
    pub span: Span,
    /// The digests of its bytes.
    pub digests: BodyDigests,
}

impl StoredBody {
    /// Returns whether each block can be verified on its own, rather than only the whole body.
    pub fn is_checked_by_block(&self) -> bool {
        matches!(self.digests, BodyDigests::One(_) | BodyDigests::Blocks(_))
    }

    /// Returns whether `bytes` match the stored digests. They must be whole blocks starting at the body's byte `start`,
    /// a block boundary, except for the last block. Always `false` for a body that can only be verified as a whole.
    pub fn has_blocks(&self, start: u64, bytes: &[u8]) -> bool {
        let digests = match &self.digests {
            BodyDigests::One(digest) => std::slice::from_ref(digest),
            BodyDigests::Blocks(digests) => digests,
            BodyDigests::Whole(_) | BodyDigests::Decoded(..) => return false,
        };
        let first = usize::try_from(start / DIGEST_BLOCK_BYTES as u64).unwrap_or(usize::MAX);
        let ends = start + bytes.len() as u64 == self.span.len;
        let is_whole = bytes.len().is_multiple_of(DIGEST_BLOCK_BYTES) || ends;
        let mut expected = digests.iter().skip(first);
        is_whole
            && start.is_multiple_of(DIGEST_BLOCK_BYTES as u64)
            && bytes.chunks(DIGEST_BLOCK_BYTES).all(|block| expected.next() == Some(&digest(block)))
    }

    /// Returns whether an uncompressed body that can only be verified as a whole has this SHA-256.
    pub(super) fn is_whole(&self, hash: Sha256) -> bool {
        matches!(&self.digests, BodyDigests::Whole(expected) if shortened(hash) == *expected)
    }

    /// Returns whether `body` is the complete stored body. Decodes it if the pack has no digests of compressed bodies.
    pub fn is_body(&self, body: &[u8]) -> bool {
        if body.len() as u64 != self.span.len {
            return false;
        }
        match &self.digests {
            BodyDigests::One(_) | BodyDigests::Blocks(_) => body.is_empty() || self.has_blocks(0, body),
            BodyDigests::Whole(expected) => digest(body) == *expected,
            BodyDigests::Decoded(encoding, expected, len) => decodes_to(*encoding, body, expected, *len),
        }
    }
}

impl FileEntry {
    /// Returns the stored forms of the file, the uploaded one first.
    pub fn bodies(&self) -> impl Iterator<Item = (Option<Encoding>, StoredBody)> + '_ {
        let whole = parse_digest(self.sha256.get(..2 * DIGEST_BYTES).unwrap_or_default()).unwrap_or_default();
        let identity = {
            let digests = if self.identity.len <= DIGEST_BLOCK_BYTES as u64 {
                BodyDigests::One(whole)
            } else {
                self.blocks(0, self.identity).unwrap_or(BodyDigests::Whole(whole))
            };
            (None, StoredBody { span: self.identity, digests })
        };
        let variants = self.variants.iter().enumerate().map(move |(at, &(encoding, span))| {
            let decoded = BodyDigests::Decoded(encoding, whole, self.identity.len);
            let digests = self.blocks(at + 1, span).unwrap_or(decoded);
            (Some(encoding), StoredBody { span, digests })
        });
        std::iter::once(identity).chain(variants)
    }

    /// Returns the digests of a form's blocks if the manifest has them.
    fn blocks(&self, form: usize, span: Span) -> Option<BodyDigests> {
        let hex = self.digests.get(form)?;
        let blocks = usize::try_from(span.len.div_ceil(DIGEST_BLOCK_BYTES as u64)).ok()?;
        if hex.len() != blocks * 2 * DIGEST_BYTES {
            return None;
        }
        let digests: Vec<BlockDigest> =
            hex.as_bytes().chunks(2 * DIGEST_BYTES).map(|hex| parse_digest(hex).ok()).collect::<Option<_>>()?;
        match digests.as_slice() {
            [only] => Some(BodyDigests::One(*only)),
            _ => Some(BodyDigests::Blocks(digests.into())),
        }
    }
}

/// Returns the digests of a body's blocks in manifest format: concatenated hexadecimal.
pub fn block_digests(body: &[u8]) -> String {
    let mut hasher = BlockHasher::default();
    hasher.update(body);
    hasher.finish()
}

fn parse_digest(hex: impl AsRef<[u8]>) -> Result<BlockDigest, hex::FromHexError> {
    let mut digest = BlockDigest::default();
    hex::decode_to_slice(hex, &mut digest)?;
    Ok(digest)
}

fn digest(block: &[u8]) -> BlockDigest {
    shortened(Sha256::new_with_prefix(block))
}

fn shortened(hash: Sha256) -> BlockDigest {
    let whole: [u8; 32] = hash.finalize().into();
    let mut digest = BlockDigest::default();
    digest.copy_from_slice(&whole[..DIGEST_BYTES]);
    digest
}

/// Returns whether a compressed body decodes to `len` bytes with this digest.
fn decodes_to(encoding: Encoding, body: &[u8], expected: &BlockDigest, len: u64) -> bool {
    let mut decoder: Box<dyn Read + '_> = match encoding {
        Encoding::Zstd => match zstd::Decoder::with_buffer(body) {
            Ok(decoder) => Box::new(decoder),
            Err(_) => return false,
        },
        Encoding::Gzip => Box::new(flate2::bufread::GzDecoder::new(body)),
        Encoding::Br => Box::new(brotli::Decompressor::new(body, CHUNK_BYTES)),
    };
    let mut chunk = vec![0; CHUNK_BYTES];
    let (mut hash, mut decoded) = (Sha256::new(), 0);
    loop {
        match decoder.read(&mut chunk) {
            Ok(0) => return decoded == len && shortened(hash) == *expected,
            Ok(read) => {
                decoded += read as u64;
                if decoded > len {
                    return false;
                }
                hash.update(&chunk[..read]);
            }
            Err(_) => return false,
        }
    }
}

/// Hashes a body block by block as it is written.
#[derive(Debug, Default)]
pub(super) struct BlockHasher {
    block: Sha256,
    filled: usize,
    digests: String,
    /// The hash of the whole body, once it has more than one block. Until then it equals the block's.
    whole: Option<Sha256>,
    is_whole: bool,
}

impl BlockHasher {
    /// Creates a hasher of blocks and of whole bodies.
    pub(super) fn for_whole_bodies() -> Self {
        Self { is_whole: true, ..Self::default() }
    }

    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        if let Some(whole) = &mut self.whole {
            whole.update(bytes);
        }
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(DIGEST_BLOCK_BYTES - self.filled));
            self.block.update(now);
            self.filled += now.len();
            if self.filled == DIGEST_BLOCK_BYTES {
                if self.is_whole && self.whole.is_none() {
                    let mut whole = self.block.clone();
                    whole.update(later);
                    self.whole = Some(whole);
                }
                self.end_block();
            }
            bytes = later;
        }
    }

    /// Returns the digests of the body in manifest format, and resets the hasher.
    pub(super) fn finish(&mut self) -> String {
        if self.filled > 0 {
            self.end_block();
        }
        self.whole = None;
        std::mem::take(&mut self.digests)
    }

    /// Returns the SHA-256 of the body and the digests of its blocks, and resets the hasher. A body of one block has no
    /// digests, because its hash is the block's; small bodies are thus hashed once.
    pub(super) fn finish_whole(&mut self) -> ([u8; 32], String) {
        let Some(whole) = self.whole.take() else {
            self.filled = 0;
            return (std::mem::take(&mut self.block).finalize().into(), String::new());
        };
        let digests = self.finish();
        let is_one = digests.len() == 2 * DIGEST_BYTES;
        (whole.finalize().into(), if is_one { String::new() } else { digests })
    }

    fn end_block(&mut self) {
        self.digests += &hex::encode(shortened(std::mem::take(&mut self.block)));
        self.filled = 0;
    }
}
