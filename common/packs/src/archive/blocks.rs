//! What the `tar` crate reads: the decompressed archive, in which every header was judged and made plain.

use std::{
    cell::Cell,
    io::{self, Read},
};

use tar::Header;

use super::{
    ArchiveError,
    decode::Decoder,
    header::{self, BLOCK},
    path::shown,
};
use crate::WriteError;

/// The blocks of an archive. Its errors carry a [`WriteError`].
pub(super) struct Blocks<'a, R: Read> {
    decoder: Decoder<R>,
    header: Header,
    /// Bytes of the header that were read.
    given: usize,
    /// Bytes until the next header.
    left: u64,
    announced: &'a Cell<Option<u64>>,
}

impl<'a, R: Read> Blocks<'a, R> {
    pub(super) fn new(decoder: Decoder<R>, announced: &'a Cell<Option<u64>>) -> Self {
        Self { decoder, header: Header::new_old(), given: BLOCK, left: 0, announced }
    }

    pub(super) fn into_inner(self) -> Decoder<R> {
        self.decoder
    }

    /// Reads the next header. Returns false where the archive ends without one.
    fn read_header(&mut self) -> Result<bool, WriteError> {
        let block = self.header.as_mut_bytes();
        match self.decoder.read_full(block)? {
            0 => return Ok(false),
            BLOCK => {}
            _ => {
                return Err(ArchiveError::invalid("the archive ends in the middle of a header; upload it again").into());
            }
        }
        if *block != [0; BLOCK] {
            let size = header::settle(&mut self.header, self.announced)?;
            self.left = size.checked_next_multiple_of(BLOCK as u64).unwrap_or(u64::MAX);
        }
        self.given = 0;
        Ok(true)
    }

    fn read_blocks(&mut self, buf: &mut [u8]) -> Result<usize, WriteError> {
        if self.given == BLOCK && self.left > 0 {
            let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buf.len());
            let read = self.decoder.read(&mut buf[..most])?;
            if read == 0 && most > 0 {
                let path = shown(&self.header.path_bytes());
                let why = format!("the archive ends in the middle of {path}; upload it again");
                return Err(ArchiveError::invalid(why).into());
            }
            self.left -= read as u64;
            return Ok(read);
        }
        if self.given == BLOCK && !self.read_header()? {
            return Ok(0);
        }
        let rest = &self.header.as_bytes()[self.given..];
        let given = rest.len().min(buf.len());
        buf[..given].copy_from_slice(&rest[..given]);
        self.given += given;
        Ok(given)
    }
}

impl<R: Read> Read for Blocks<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read_blocks(buf).map_err(io::Error::other)
    }
}
