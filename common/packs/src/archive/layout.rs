//! Where the parts of a zip archive stand.
//!
//! Some programs read a zip archive by the directory at its end, others from its first byte on, and they differ in how they find
//! the end. All of them must find the same: every byte of an upload is one of a file, of what describes a file, of the directory, of
//! the end, or stands before the archive and holds nothing that begins a part of one.

use rawzip::{ReaderAt, ZipArchive};

use super::ArchiveError;
use crate::{StoreError, WriteError};

/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;
/// Bytes of the record at the end of an archive, without the comment that may follow.
const END_BYTES: usize = 22;
/// Bytes of the record that says where the end in 64 bits stands, and of that end.
const LOCATOR_BYTES: usize = 20;
const END64_BYTES: usize = 56;
/// The signatures of those three.
const END: &[u8] = b"PK\x05\x06";
const LOCATOR: &[u8] = b"PK\x06\x07";
const END64: &[u8] = b"PK\x06\x06";
/// The signature of what stands behind a file that was compressed into a pipe.
const DESCRIPTOR: &[u8] = b"PK\x07\x08";
/// Signatures at which a program may begin to read.
const BEGINNINGS: [&[u8]; 3] = [b"PK\x03\x04", b"PK\x01\x02", END];
/// Where in what stands before a file its flags are, and the flag that says that its sizes are behind it.
const FLAGS: u64 = 6;
const SIZES_BEHIND: u16 = 1 << 3;

/// The place of a file in an archive, and what the directory says of it.
#[derive(Debug)]
pub(super) struct Part {
    /// The first byte of what stands before it.
    pub(super) start: u64,
    /// The first byte behind its data.
    pub(super) end: u64,
    pub(super) crc: u32,
    pub(super) compressed: u64,
    pub(super) size: u64,
}

/// Fails unless the archive ends where the upload does, but for zeros, and in one way.
pub(super) fn check_end<R: ReaderAt>(archive: &ZipArchive<R>, len: u64) -> Result<(), WriteError> {
    let end = archive.end_offset();
    scan(archive, end, len, |chunk| {
        if chunk.iter().any(|&byte| byte != 0) {
            return Err(ArchiveError::invalid("bytes follow the end of the zip archive"));
        }
        Ok(())
    })?;
    // Programs differ in which of several ends they take: the last one, or the last one whose comment reaches the end.
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

/// Fails unless the directory, of `entries` entries in `len` bytes, stands right before the end, and the end says so wherever a
/// program may look.
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

/// Fails unless each file has bytes of its own, and nothing stands between them.
pub(super) fn check_parts<R: ReaderAt>(archive: &ZipArchive<R>, parts: &mut [Part]) -> Result<(), WriteError> {
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
        // Whoever reads from the front would take the next file for the sizes.
        if gap == 0 && has_sizes_behind(archive, part)? {
            return Err(ArchiveError::invalid("the zip archive lacks the sizes of a file; make it anew").into());
        }
    }
    Ok(())
}

/// Fails when something stands before the archive at which a program could begin to read.
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

/// Whether a part says that the sizes of its file stand behind it.
fn has_sizes_behind<R: ReaderAt>(archive: &ZipArchive<R>, part: &Part) -> Result<bool, WriteError> {
    let flags: [u8; 2] = read(archive, part.start + FLAGS)?;
    Ok(number16(&flags) & SIZES_BEHIND != 0)
}

/// Whether the bytes behind a part are the sizes of a file that was compressed into a pipe, and are right.
fn is_descriptor<R: ReaderAt>(archive: &ZipArchive<R>, part: &Part, len: u64) -> Result<bool, WriteError> {
    if !has_sizes_behind(archive, part)? || !matches!(len, 12 | 16 | 20 | 24) {
        return Ok(false);
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    archive.get_ref().read_exact_at(&mut bytes, part.end).map_err(super::zip::cause)?;
    let fields = if matches!(len, 16 | 24) { bytes.strip_prefix(DESCRIPTOR) } else { Some(&*bytes) };
    let Some((crc, sizes)) = fields.and_then(<[u8]>::split_first_chunk::<4>) else { return Ok(false) };
    let (compressed, size) = sizes.split_at(sizes.len() / 2);
    Ok(number(crc) == u64::from(part.crc) && number(compressed) == part.compressed && number(size) == part.size)
}

/// Gives the bytes of a range to `judge`, some at a time.
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

/// A number of up to eight bytes, the least first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn number16(bytes: &[u8]) -> u16 {
    u16::try_from(number(bytes)).unwrap_or(u16::MAX)
}
