//! The layout of a zip archive.
//!
//! Some programs read a zip archive from the directory at its end, others from its first byte, and they differ in how
//! they find the end. All of them must find the same content: every byte of an upload belongs to a file, a file's
//! header, the directory, or the end record, or precedes the archive and contains no signature of an archive part.

use rawzip::{ReaderAt, ZipArchive};

use super::ArchiveError;
use crate::{StoreError, WriteError};

const READ_BYTES: usize = 16 * 1024;
/// Bytes of the end record, without the comment that may follow.
const END_BYTES: usize = 22;
/// Bytes of the ZIP64 locator and of the ZIP64 end record.
const LOCATOR_BYTES: usize = 20;
const END64_BYTES: usize = 56;
/// Signatures of the end record, the ZIP64 locator and the ZIP64 end record.
const END: &[u8] = b"PK\x05\x06";
const LOCATOR: &[u8] = b"PK\x06\x07";
const END64: &[u8] = b"PK\x06\x06";
/// The signature of a data descriptor, which follows a file that was streamed.
const DESCRIPTOR: &[u8] = b"PK\x07\x08";
/// Signatures at which a program may start to read.
const BEGINNINGS: [&[u8]; 3] = [b"PK\x03\x04", b"PK\x01\x02", END];
/// Offset of the flags in a local file header, and the flag for sizes in a data descriptor.
const FLAGS: u64 = 6;
const SIZES_BEHIND: u16 = 1 << 3;

/// The position of a file in an archive, and its data in the directory.
#[derive(Debug)]
pub(super) struct ZipPart {
    /// The first byte of its local header.
    pub(super) start: u64,
    /// The first byte after its data.
    pub(super) end: u64,
    pub(super) crc: u32,
    pub(super) compressed: u64,
    pub(super) size: u64,
}

/// Fails unless the archive ends unambiguously at the end of the upload, except for trailing zeros.
pub(super) fn check_end<R: ReaderAt>(archive: &ZipArchive<R>, len: u64) -> Result<(), WriteError> {
    let end = archive.end_offset();
    scan(archive, end, len, |chunk| {
        if chunk.iter().any(|&byte| byte != 0) {
            return Err(ArchiveError::invalid("bytes follow the end of the zip archive"));
        }
        Ok(())
    })?;
    // Programs choose differently among several end records: the last, or the last whose comment reaches the end.
    let from = end.saturating_sub(END_BYTES as u64 + u64::from(u16::MAX));
    let mut tail = vec![0; usize::try_from(end - from).unwrap_or_default()];
    archive.get_ref().read_exact_at(&mut tail, from).map_err(super::zip::cause)?;
    let is_other_end = |(at, record): (usize, &[u8])| {
        let position = from + at as u64;
        let comment = || record.get(20..22).map_or(0, |len| usize::from(number16(len)));
        record.starts_with(END)
            && (position > archive.eocd_offset()
                || position < archive.eocd_offset() && at + END_BYTES + comment() == tail.len())
    };
    if (0..tail.len()).map(|at| (at, &tail[at..])).any(is_other_end) {
        return Err(ArchiveError::invalid("the zip archive has more than one end; make it without a comment").into());
    }
    Ok(())
}

/// Fails unless the directory of `entries` entries and `len` bytes directly precedes end records that agree with it.
pub(super) fn check_directory_end<R: ReaderAt>(
    archive: &ZipArchive<R>,
    entries: u64,
    len: u64,
) -> Result<(), WriteError> {
    let at = archive.eocd_offset();
    let end: [u8; END_BYTES] = read(archive, at)?;
    let locator: [u8; LOCATOR_BYTES] = match at.checked_sub(LOCATOR_BYTES as u64) {
        Some(at) => read(archive, at)?,
        None => [0; LOCATOR_BYTES],
    };
    let directory_end = archive.directory_offset() + len;
    let numbers = [0, 0, entries, entries].into_iter().zip(end[4..12].chunks_exact(2));
    let is_whole = if locator.starts_with(LOCATOR) {
        let Some(at64) = at.checked_sub((LOCATOR_BYTES + END64_BYTES) as u64) else { return Err(not_whole().into()) };
        let end64: [u8; END64_BYTES] = read(archive, at64)?;
        let is_maximum = |bytes: &[u8]| bytes.iter().all(|&byte| byte == u8::MAX);
        let same = |bytes: &[u8], expected: u64| is_maximum(bytes) || number(bytes) == expected;
        directory_end == at64
            && number(&locator[4..8]) == 0
            && number(&locator[8..16]) == at64
            && number(&locator[16..20]) == 1
            && end64.starts_with(END64)
            && number(&end64[4..12]) == END64_BYTES as u64 - 12
            && number(&end64[16..24]) == 0
            && number(&end64[24..32]) == entries
            && number(&end64[32..40]) == entries
            && number(&end64[40..48]) == len
            && number(&end64[48..56]) == archive.directory_offset()
            && numbers.into_iter().all(|(expected, bytes)| same(bytes, expected))
            && same(&end[12..16], len)
            && same(&end[16..20], archive.directory_offset())
    } else {
        directory_end == at
            && number(&end[12..16]) == len
            && numbers.into_iter().all(|(expected, bytes)| number(bytes) == expected)
    };
    if is_whole { Ok(()) } else { Err(not_whole().into()) }
}

fn not_whole() -> ArchiveError {
    ArchiveError::invalid("the directory of the zip archive is not whole")
}

/// Fails unless the files do not overlap and nothing is stored between them.
pub(super) fn check_parts<R: ReaderAt>(archive: &ZipArchive<R>, parts: &mut [ZipPart]) -> Result<(), WriteError> {
    parts.sort_unstable_by_key(|part| (part.start, part.end));
    let directory = archive.directory_offset();
    check_prefix(archive, parts.first().map_or(directory, |part| part.start))?;
    let nexts = parts.iter().skip(1).map(|part| part.start).chain([directory]);
    for (part, next) in parts.iter().zip(nexts) {
        let Some(gap) = next.checked_sub(part.end) else {
            return Err(ArchiveError::invalid("files of the zip archive share their bytes").into());
        };
        if gap > 0 && !is_descriptor(archive, part, gap)? {
            return Err(ArchiveError::invalid("the zip archive holds bytes between its files; make it anew").into());
        }
        // A program that reads from the front would take the next file for the sizes.
        if gap == 0 && has_data_descriptor(archive, part)? {
            return Err(ArchiveError::invalid("the zip archive lacks the sizes of a file; make it anew").into());
        }
    }
    Ok(())
}

/// Fails if the bytes before the archive contain a signature at which a program may start to read.
fn check_prefix<R: ReaderAt>(archive: &ZipArchive<R>, len: u64) -> Result<(), WriteError> {
    let mut overlap = Vec::new();
    scan(archive, 0, len, |chunk| {
        overlap.extend_from_slice(chunk);
        if overlap.windows(4).any(|bytes| BEGINNINGS.contains(&bytes)) {
            return Err(ArchiveError::invalid("another zip archive stands before the one that was uploaded"));
        }
        overlap.drain(..overlap.len().saturating_sub(3));
        Ok(())
    })
}

/// Returns whether the local header says that the file's sizes follow its data.
fn has_data_descriptor<R: ReaderAt>(archive: &ZipArchive<R>, part: &ZipPart) -> Result<bool, WriteError> {
    let flags: [u8; 2] = read(archive, part.start + FLAGS)?;
    Ok(number16(&flags) & SIZES_BEHIND != 0)
}

/// Returns whether the bytes after a part are a correct data descriptor.
fn is_descriptor<R: ReaderAt>(archive: &ZipArchive<R>, part: &ZipPart, len: u64) -> Result<bool, WriteError> {
    if !has_data_descriptor(archive, part)? || !matches!(len, 12 | 16 | 20 | 24) {
        return Ok(false);
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    archive.get_ref().read_exact_at(&mut bytes, part.end).map_err(super::zip::cause)?;
    let fields = if matches!(len, 16 | 24) { bytes.strip_prefix(DESCRIPTOR) } else { Some(&*bytes) };
    let Some((crc, sizes)) = fields.and_then(<[u8]>::split_first_chunk::<4>) else { return Ok(false) };
    let (compressed, size) = sizes.split_at(sizes.len() / 2);
    Ok(number(crc) == u64::from(part.crc) && number(compressed) == part.compressed && number(size) == part.size)
}

/// Passes the bytes of a range to `judge` in chunks.
fn scan<R: ReaderAt>(
    archive: &ZipArchive<R>,
    from: u64,
    to: u64,
    mut judge: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
) -> Result<(), WriteError> {
    let mut chunk = [0; READ_BYTES];
    let mut at = from;
    while at < to {
        let most = usize::try_from(to - at).unwrap_or(usize::MAX).min(READ_BYTES);
        let read = archive.get_ref().read_at(&mut chunk[..most], at).map_err(StoreError::Io)?;
        if read == 0 {
            break;
        }
        judge(&chunk[..read])?;
        at += read as u64;
    }
    Ok(())
}

fn read<R: ReaderAt, const N: usize>(archive: &ZipArchive<R>, at: u64) -> Result<[u8; N], WriteError> {
    let mut bytes = [0; N];
    archive.get_ref().read_exact_at(&mut bytes, at).map_err(super::zip::cause)?;
    Ok(bytes)
}

/// Decodes a little-endian number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn number16(bytes: &[u8]) -> u16 {
    u16::try_from(number(bytes)).unwrap_or(u16::MAX)
}
