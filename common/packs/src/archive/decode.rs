//! Decompression of uploads. Verifies gzip checksums and complete Zstandard frames; only zeros may follow.

use std::{
    error::Error,
    fmt,
    io::{self, BufRead, BufReader, Read},
    mem,
};

use flate2::bufread::GzDecoder;
use zstd::{
    stream::raw::{self, InBuffer, Operation as _, OutBuffer},
    zstd_safe::DParameter,
};

use super::ArchiveError;
use crate::WriteError;

const READ_BYTES: usize = 64 * 1024;
/// Binary logarithm of the largest Zstandard window: 8 MB, which RFC 8878 requires every decoder to support, and which
/// is allocated as memory. Levels up to 19 stay within it unless `--long` is given.
const ZSTD_WINDOW_LOG: u32 = 23;
/// The first byte of a Zstandard frame. Formats before version 0.8 begin differently and are not supported.
const ZSTD_FRAME: u8 = 0x28;

/// A reader of an upload's decompressed bytes.
pub(super) enum UploadDecoder<R: Read> {
    Gzip(GzipReader<R>),
    Zstd(ZstdReader<R>),
}

/// Marks I/O errors of the spooled file, to tell them from errors in the archive.
#[derive(Debug)]
struct SpoolReader<R>(R);

#[derive(Debug, thiserror::Error)]
#[error("the spooled upload cannot be read: {0}")]
struct SpoolError(io::Error);

impl<R: Read> Read for SpoolReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            kind => io::Error::new(kind, SpoolError(error)),
        })
    }
}

impl<R: Read> UploadDecoder<R> {
    pub(super) fn gzip(upload: R) -> Self {
        let input = GzipInput(Some(buffered(upload)));
        Self::Gzip(GzipReader { decoder: GzDecoder::new(input), is_ended: false })
    }

    pub(super) fn zstd(upload: R) -> Result<Self, WriteError> {
        let mut decoder = raw::Decoder::new().map_err(zstd_error)?;
        decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG)).map_err(zstd_error)?;
        Ok(Self::Zstd(ZstdReader {
            decoder,
            input: buffered(upload),
            is_between: true,
            is_ended: false,
            is_begun: false,
        }))
    }

    /// Reads some bytes. Returns 0 at the end, after verifying every checksum and that only zeros follow.
    pub(super) fn read(&mut self, buf: &mut [u8]) -> Result<usize, WriteError> {
        match self {
            Self::Gzip(gunzip) => gunzip.read(buf),
            Self::Zstd(unzstd) => unzstd.read(buf),
        }
    }

    /// Fills `buf` unless the end comes first. Returns the number of bytes filled.
    pub(super) fn read_full(&mut self, buf: &mut [u8]) -> Result<usize, WriteError> {
        let mut filled = 0;
        while filled < buf.len() {
            let read = self.read(&mut buf[filled..])?;
            if read == 0 {
                break;
            }
            filled += read;
        }
        Ok(filled)
    }
}

impl<R: Read> fmt::Debug for UploadDecoder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decoder")
    }
}

/// Reads gzip. bsdtar pads its last record with zeros, which flate2's multi-member reader would take for another
/// member, so this type moves one decoder from member to member.
pub(super) struct GzipReader<R: Read> {
    decoder: GzDecoder<GzipInput<R>>,
    is_ended: bool,
}

/// The upload, absent only while the decoder is reset for the next member.
struct GzipInput<R>(Option<BufReader<SpoolReader<R>>>);

impl<R: Read> Read for GzipInput<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.as_mut().map_or(Ok(0), |reader| reader.read(buf))
    }
}

impl<R: Read> BufRead for GzipInput<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.as_mut().map_or(Ok(&[]), BufRead::fill_buf)
    }

    fn consume(&mut self, amount: usize) {
        if let Some(reader) = &mut self.0 {
            reader.consume(amount);
        }
    }
}

impl<R: Read> GzipReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, WriteError> {
        while !self.is_ended {
            let read = retry_interrupted(|| self.decoder.read(buf)).map_err(gzip_error)?;
            if read > 0 || buf.is_empty() {
                return Ok(read);
            }
            if peek(self.decoder.get_mut()).map_err(gzip_error)? == Some(0x1f) {
                let upload = mem::replace(self.decoder.get_mut(), GzipInput(None));
                self.decoder.reset(upload);
            } else {
                check_padding(self.decoder.get_mut(), "gzip")?;
                self.is_ended = true;
            }
        }
        Ok(0)
    }
}

pub(super) struct ZstdReader<R: Read> {
    decoder: raw::Decoder<'static>,
    input: BufReader<SpoolReader<R>>,
    /// Whether the reader is between frames.
    is_between: bool,
    is_ended: bool,
    /// Whether a frame was found.
    is_begun: bool,
}

impl<R: Read> ZstdReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, WriteError> {
        while !self.is_ended && !buf.is_empty() {
            if self.is_between {
                match peek(&mut self.input).map_err(zstd_error)? {
                    Some(ZSTD_FRAME | 0x50..=0x5f) => self.is_begun = true,
                    _ if self.is_begun => {
                        check_padding(&mut self.input, "Zstandard")?;
                        self.is_ended = true;
                        break;
                    }
                    _ => return Err(ArchiveError::invalid("the upload is not Zstandard data").into()),
                }
            }
            let chunk = retry_interrupted(|| self.input.fill_buf().map(<[u8]>::len)).map_err(zstd_error)?;
            let (mut from, mut to) = (InBuffer::around(&self.input.buffer()[..chunk]), OutBuffer::around(buf));
            let left = self.decoder.run(&mut from, &mut to).map_err(zstd_error)?;
            let (taken, made) = (from.pos(), to.pos());
            self.input.consume(taken);
            self.is_between = left == 0;
            if made > 0 {
                return Ok(made);
            }
            if chunk == 0 && !self.is_between {
                return Err(ArchiveError::invalid("the Zstandard data is cut off; upload it again").into());
            }
        }
        Ok(0)
    }
}

fn buffered<R: Read>(upload: R) -> BufReader<SpoolReader<R>> {
    BufReader::with_capacity(READ_BYTES, SpoolReader(upload))
}

fn peek(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    retry_interrupted(|| input.fill_buf().map(|next| next.first().copied()))
}

/// Fails unless only zeros remain: bsdtar pads the last record of its output to a pipe, compressed or not.
fn check_padding(input: &mut impl BufRead, format: &str) -> Result<(), WriteError> {
    loop {
        let (left, is_zero) =
            retry_interrupted(|| input.fill_buf().map(|next| (next.len(), next.iter().all(|&byte| byte == 0))))
                .map_err(gzip_error)?;
        if left == 0 {
            return Ok(());
        }
        if !is_zero {
            return Err(ArchiveError::invalid(format!("bytes follow the end of the {format} data")).into());
        }
        input.consume(left);
    }
}

fn retry_interrupted<T>(mut read: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

fn gzip_error(error: io::Error) -> WriteError {
    match split_spool_error(error) {
        Ok(ours) => ours,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            ArchiveError::invalid("the gzip data is cut off; upload it again").into()
        }
        Err(error) => ArchiveError::invalid(format!("the upload is not intact gzip data ({error})")).into(),
    }
}

fn zstd_error(error: io::Error) -> WriteError {
    match split_spool_error(error) {
        Ok(ours) => ours,
        // The library's errors have a text but no code.
        Err(error) if error.to_string().contains("too much memory") => ArchiveError::invalid(
            "the Zstandard data looks back more than 8 MB; compress it without `--long` and `--ultra`",
        )
        .into(),
        Err(error) => ArchiveError::invalid(format!("the upload is not intact Zstandard data ({error})")).into(),
    }
}

/// Separates errors of the spooled file from errors in the archive.
fn split_spool_error(error: io::Error) -> Result<WriteError, io::Error> {
    if error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<SpoolError>) {
        return Ok(WriteError::Store(error.into()));
    }
    Err(error)
}
