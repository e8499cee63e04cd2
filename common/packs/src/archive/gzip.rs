//! Gzip, all of it: every member to its checksum, and nothing after the last.

use std::{
    error::Error,
    io::{self, BufRead as _, BufReader, Read},
};

use flate2::bufread::GzDecoder;

use super::ArchiveError;
use crate::WriteError;

/// Members of one upload, at most: block-wise compressors make one every 64 KB. Each costs a decoder, so a tarball
/// of empty members would be slow to read.
const MEMBERS: u32 = 10_000;
/// Bytes read from the upload at once.
const READ_BYTES: usize = 64 * 1024;

/// The decompressed bytes of a gzip file.
#[derive(Debug)]
pub(super) struct Gunzip<R: Read> {
    /// None between two calls only.
    decoder: Option<GzDecoder<BufReader<Spool<R>>>>,
    members: u32,
}

/// Marks the errors of the spooled file itself: those are ours, all others are the archive's.
#[derive(Debug)]
struct Spool<R>(R);

#[derive(Debug, thiserror::Error)]
#[error("the spooled upload cannot be read: {0}")]
struct SpoolError(io::Error);

impl<R: Read> Read for Spool<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            kind => io::Error::new(kind, SpoolError(error)),
        })
    }
}

impl<R: Read> Gunzip<R> {
    pub(super) fn new(upload: R) -> Self {
        let reader = BufReader::with_capacity(READ_BYTES, Spool(upload));
        Self { decoder: Some(GzDecoder::new(reader)), members: 1 }
    }

    /// Reads some bytes; 0 at the end, when every checksum was right and nothing follows.
    pub(super) fn read(&mut self, buf: &mut [u8]) -> Result<usize, WriteError> {
        while let Some(decoder) = &mut self.decoder {
            let read = loop {
                match decoder.read(buf) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => break read.map_err(judge)?,
                }
            };
            if read > 0 || buf.is_empty() {
                return Ok(read);
            }
            let Some(mut rest) = self.decoder.take().map(GzDecoder::into_inner) else { break };
            let next = rest.fill_buf().map_err(judge)?;
            if next.is_empty() {
                break;
            }
            if next[0] != 0x1f {
                return Err(ArchiveError::invalid("bytes follow the end of the gzip data").into());
            }
            if self.members == MEMBERS {
                return Err(ArchiveError::invalid(format!("the upload has more than {MEMBERS} gzip members")).into());
            }
            self.members += 1;
            self.decoder = Some(GzDecoder::new(rest));
        }
        Ok(0)
    }
}

fn judge(error: io::Error) -> WriteError {
    if error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<SpoolError>) {
        return WriteError::Store(error.into());
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ArchiveError::invalid("the gzip data is cut off; upload it again").into(),
        _ => ArchiveError::invalid(format!("the upload is not intact gzip data ({error})")).into(),
    }
}
