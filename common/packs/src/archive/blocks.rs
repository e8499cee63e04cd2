//! The input of the `tar` crate: the decompressed archive with validated and normalized headers.
//!
//! Two blocks of zeros end an archive. GNU tar, bsdtar and Python stop at the first one; node-tar and `BusyBox`
//! continue if an entry follows it. This reader continues like node-tar, and entries found there must not change the
//! site ([`TarProgress::is_past_zeros`]).

use std::{
    cell::Cell,
    io::{self, Read},
};

use domain::size;
use tar::Header;

use super::{
    ArchiveError,
    decode::UploadDecoder,
    header::{self, BLOCK},
    path::shown,
};
use crate::WriteError;

/// State shared between the block reader and the entry reader.
#[derive(Debug, Default)]
pub(super) struct TarProgress {
    /// The next entry's size from a PAX header.
    pub(super) announced: Cell<Option<u64>>,
    is_past_zeros: Cell<bool>,
}

impl TarProgress {
    /// Returns whether the current entry follows a single block of zeros, where some programs have stopped.
    pub(super) fn is_past_zeros(&self) -> bool {
        self.is_past_zeros.get()
    }
}

/// Reads the blocks of an archive. Its errors carry a [`WriteError`].
pub(super) struct TarBlocks<'a, R: Read> {
    decoder: UploadDecoder<R>,
    header: Header,
    /// Bytes of the header already read by the caller.
    given: usize,
    /// Bytes until the next header.
    left: u64,
    progress: &'a TarProgress,
    /// Bytes that may still be skipped in search of a header.
    room: u64,
}

impl<'a, R: Read> TarBlocks<'a, R> {
    /// Creates a reader that skips at most `room` bytes in search of headers.
    pub(super) fn new(decoder: UploadDecoder<R>, progress: &'a TarProgress, room: u64) -> Self {
        Self { decoder, header: Header::new_old(), given: BLOCK, left: 0, progress, room }
    }

    pub(super) fn into_inner(self) -> UploadDecoder<R> {
        self.decoder
    }

    /// Reads the next header, or the second of two blocks of zeros. Returns `false` if the archive ends without them.
    fn read_header(&mut self) -> Result<bool, WriteError> {
        let mut is_after_zeros = false;
        loop {
            let block = self.header.as_mut_bytes();
            let read = self.decoder.read_full(block)?;
            if read < BLOCK {
                if read > 0 && !is_after_zeros && !self.progress.is_past_zeros() {
                    let why = "the archive ends in the middle of a header; upload it again";
                    return Err(ArchiveError::invalid(why).into());
                }
                return Ok(false);
            }
            if *block == [0; BLOCK] || is_after_zeros && header::is_blank(block) {
                if is_after_zeros {
                    block.fill(0); // the crate ends there
                    break;
                }
                is_after_zeros = true;
            } else {
                if is_after_zeros {
                    self.progress.is_past_zeros.set(true);
                    is_after_zeros = false;
                }
                // node-tar searches each block there for a header.
                if !self.progress.is_past_zeros() || header::is_header(block) {
                    let size = header::normalize(&mut self.header, &self.progress.announced)?;
                    self.left = size.checked_next_multiple_of(BLOCK as u64).unwrap_or(u64::MAX);
                    break;
                }
            }
            self.skip_block()?;
        }
        self.given = 0;
        Ok(true)
    }

    fn skip_block(&mut self) -> Result<(), ArchiveError> {
        self.room = self.room.checked_sub(BLOCK as u64).ok_or_else(|| {
            let most = size(super::OVERHEAD_BYTES);
            ArchiveError::TooLarge(format!("the archive has more than {most} behind its end"))
        })?;
        Ok(())
    }

    fn read_blocks(&mut self, buf: &mut [u8]) -> Result<usize, WriteError> {
        if self.given == BLOCK && self.left > 0 {
            let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buf.len());
            let read = self.decoder.read(&mut buf[..most])?;
            if read == 0 && most > 0 && self.progress.is_past_zeros() {
                // Zeros let programs that still read continue. A file completed by zeros differs from any earlier one.
                buf[..most].fill(0);
                self.left -= most as u64;
                return Ok(most);
            }
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

impl<R: Read> Read for TarBlocks<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read_blocks(buf).map_err(io::Error::other)
    }
}
