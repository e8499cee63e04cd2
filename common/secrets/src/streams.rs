//! Sealing of data that is too long for one piece, such as a dump of the database, in chunks.
//!
//! A stream has its own key, derived from the master key, a purpose and a random salt. Each chunk is sealed with its
//! number and whether it is the last one, so that missing, swapped or truncated chunks are detected.
//!
//! ```text
//! header  tag of the master key (5), salt (32)
//! chunk   length (4, little-endian; the highest bit is set in the last one), sealed bytes
//! ```

use rand::RngExt as _;

use crate::{
    KeyPurpose, MasterKey,
    master_key::{OpenError, TAG_LEN, open, seal},
};

/// The maximum length of a chunk before it is sealed, in bytes.
pub const CHUNK_BYTES: usize = 1 << 20;
/// The length of the header, in bytes.
pub const HEADER_LEN: usize = TAG_LEN + SALT_LEN;
/// The length of the prefix of each chunk, in bytes.
pub const LENGTH_LEN: usize = 4;
const SALT_LEN: usize = 32;
/// The bytes that sealing adds to a chunk: the nonce and the tag.
const OVERHEAD: usize = 24 + 16;
const LAST: u32 = 1 << 31;

/// Seals the chunks of a stream, in order.
pub struct StreamSealer {
    key: [u8; 32],
    number: u64,
}

/// Opens the chunks of a stream, in order.
pub struct StreamOpener {
    key: [u8; 32],
    number: u64,
}

/// The length prefix of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkLength {
    /// The length of the sealed chunk, in bytes.
    pub bytes: usize,
    /// Whether it is the last chunk of the stream.
    pub is_last: bool,
}

impl MasterKey {
    /// Begins a sealed stream, and returns its header.
    pub fn seal_stream(&self, purpose: KeyPurpose) -> (Vec<u8>, StreamSealer) {
        let mut salt = [0; SALT_LEN];
        rand::rng().fill(&mut salt);
        let keys = self.keys();
        let sealing = &keys[0];
        let header = [sealing.tag().as_slice(), &salt].concat();
        (header, StreamSealer { key: sealing.derive(purpose, &salt), number: 0 })
    }

    /// Begins to open a stream by its header, with whichever key sealed it.
    pub fn open_stream(&self, purpose: KeyPurpose, header: &[u8; HEADER_LEN]) -> Result<StreamOpener, OpenError> {
        let (tag, salt) = header.split_at(TAG_LEN);
        let keys = self.keys();
        let key = keys.iter().find(|key| key.tag() == tag).ok_or(OpenError)?;
        Ok(StreamOpener { key: key.derive(purpose, salt), number: 0 })
    }
}

impl StreamSealer {
    /// Seals the next chunk, of at most [`CHUNK_BYTES`], and prepends its length. The last chunk may be empty.
    pub fn seal(&mut self, plain: &[u8], is_last: bool) -> Vec<u8> {
        debug_assert!(plain.len() <= CHUNK_BYTES);
        let sealed = seal(&self.key, &identity(self.number, is_last), plain);
        self.number += 1;
        let length = u32::try_from(sealed.len()).unwrap_or(LAST - 1) | if is_last { LAST } else { 0 };
        [length.to_le_bytes().as_slice(), &sealed].concat()
    }
}

impl StreamOpener {
    /// Opens the next chunk.
    pub fn open(&mut self, sealed: &[u8], is_last: bool) -> Result<Vec<u8>, OpenError> {
        let plain = open(&self.key, &identity(self.number, is_last), sealed)?;
        self.number += 1;
        Ok(plain)
    }
}

impl ChunkLength {
    /// Parses the prefix of a chunk.
    pub fn parse(length: [u8; LENGTH_LEN]) -> Result<Self, OpenError> {
        let length = u32::from_le_bytes(length);
        let bytes = usize::try_from(length & !LAST).map_err(|_| OpenError)?;
        if bytes > CHUNK_BYTES + OVERHEAD {
            return Err(OpenError);
        }
        Ok(Self { bytes, is_last: length & LAST != 0 })
    }
}

fn identity(number: u64, is_last: bool) -> [u8; 9] {
    let mut identity = [0; 9];
    identity[..8].copy_from_slice(&number.to_le_bytes());
    identity[8] = u8::from(is_last);
    identity
}

impl std::fmt::Debug for StreamSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamSealer").field("number", &self.number).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for StreamOpener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamOpener").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a sealed chunk into its length and its bytes.
    fn parse(chunk: &[u8]) -> (ChunkLength, &[u8]) {
        let (length, sealed) = chunk.split_first_chunk().unwrap();
        let length = ChunkLength::parse(*length).unwrap();
        assert_eq!(length.bytes, sealed.len());
        (length, sealed)
    }

    #[test]
    fn a_stream_opens_in_its_own_order_and_to_its_own_end_only() {
        let key = MasterKey::generate();
        let (header, mut sealer) = key.seal_stream(KeyPurpose::Backups);
        let chunks = [sealer.seal(b"one", false), sealer.seal(&vec![2; CHUNK_BYTES], false), sealer.seal(b"", true)];
        let header: &[u8; HEADER_LEN] = header.as_slice().try_into().unwrap();
        let opener = || key.open_stream(KeyPurpose::Backups, header).unwrap();

        let mut opening = opener();
        let opened: Vec<_> = chunks
            .iter()
            .map(|chunk| {
                let (length, sealed) = parse(chunk);
                (opening.open(sealed, length.is_last).unwrap(), length.is_last)
            })
            .collect();
        assert_eq!(opened, [(b"one".to_vec(), false), (vec![2; CHUNK_BYTES], false), (Vec::new(), true)]);

        let sealed = chunks.each_ref().map(|chunk| parse(chunk).1);
        assert_eq!(opener().open(sealed[1], false), Err(OpenError), "the first one is missing");
        assert_eq!(opener().open(sealed[0], true), Err(OpenError), "it is not the last one");
        let mut damaged = sealed[0].to_vec();
        damaged[30] ^= 1;
        assert_eq!(opener().open(&damaged, false), Err(OpenError));
        let mut of_another_purpose = key.open_stream(KeyPurpose::EnvValues, header).unwrap();
        assert_eq!(of_another_purpose.open(sealed[0], false), Err(OpenError));
        assert!(MasterKey::generate().open_stream(KeyPurpose::Backups, header).is_err());
        assert!(ChunkLength::parse([255; 4]).is_err());
    }
}
