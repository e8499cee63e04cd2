//! Checks whether digits in a name are the beginning of a hash of the file's content.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::FileExt as _,
};

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::Span;

/// Maximum bytes of files that are hashed per upload: few names need it.
const HASHED_BYTES: u64 = 64 * 1024 * 1024;
const CHUNK_BYTES: usize = 64 * 1024;
/// Minimum number of digits that cannot match by coincidence.
const FEWEST_DIGITS: usize = 8;

/// Compares names with content hashes within a byte budget.
pub(in super::super) struct ContentVerifier<'d> {
    data: &'d File,
    bytes_left: u64,
}

impl<'d> ContentVerifier<'d> {
    pub(in super::super) fn new(data: &'d File) -> Self {
        Self { data, bytes_left: HASHED_BYTES }
    }

    /// Returns whether the MD5, SHA-1 or SHA-256 of the content at `span` begins with the hexadecimal `digits`.
    pub(super) fn is_hash_prefix(&mut self, digits: &str, span: Span) -> io::Result<bool> {
        if digits.len() < FEWEST_DIGITS || span.len > self.bytes_left {
            return Ok(false);
        }
        self.bytes_left -= span.len;
        let (mut md5, mut sha1, mut sha256) = (Md5::new(), Sha1::new(), Sha256::new());
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut done = 0;
        while done < span.len {
            let len = usize::try_from(span.len - done).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            self.data.read_exact_at(&mut chunk[..len], span.offset + done)?;
            md5.update(&chunk[..len]);
            sha1.update(&chunk[..len]);
            sha256.update(&chunk[..len]);
            done += len as u64;
        }
        let hashes = [hex::encode(md5.finalize()), hex::encode(sha1.finalize()), hex::encode(sha256.finalize())];
        Ok(hashes.iter().any(|hash| hash.starts_with(digits)))
    }

    /// Reads the content at `span` in chunks until `take` returns `false`.
    pub(super) fn read(&self, span: Span, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
        let mut body = ContentReader { data: self.data, span };
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = body.read(&mut chunk)?;
            if read == 0 || !take(&chunk[..read]) {
                return Ok(());
            }
        }
    }
}

struct ContentReader<'d> {
    data: &'d File,
    span: Span,
}

impl io::Read for ContentReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.span.len).unwrap_or(usize::MAX).min(buf.len());
        let read = self.data.read_at(&mut buf[..most], self.span.offset)?;
        if read == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.span.offset += read as u64;
        self.span.len -= read as u64;
        Ok(read)
    }
}
