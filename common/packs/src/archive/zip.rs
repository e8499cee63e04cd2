//! Reads a zip archive with `rawzip`.
//!
//! The truth of a zip archive is the directory at its end: what stands before it may be left over, and a reader that goes from the
//! front has to guess where a file ends that was compressed into a pipe. An upload is in a file when it is read, so the directory
//! is read first and judged as a whole: entries that share bytes, with which a small archive becomes an endless one, are refused
//! before anything is extracted. What stands before each file must not contradict the directory, for others read that alone.

use std::io::{self, BufReader};

use flate2::{Crc, bufread::DeflateDecoder};
use rawzip::{
    CompressionMethod, CreatorSystem, ErrorKind, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ReaderAt, ZipArchive, ZipEntry,
    ZipFileHeaderRecord, ZipLocator, extra_fields::ExtraFieldId,
};

use super::{
    ArchiveError, Body, Visit, codepage,
    inventory::Inventory,
    path::{self, Names, shown},
};
use crate::{StoreError, WriteError};

/// Entries of a directory, at most: folders and files that are left out are among them. Where each stands is kept in memory.
const ENTRIES: u64 = 100_000;
/// Bytes of compressed data read at once.
const READ_BYTES: usize = 16 * 1024;
/// Bytes of the record at the end of an archive, without the comment that may follow.
const END_BYTES: u64 = 22;
/// Its signature.
const END: &[u8] = b"PK\x05\x06";
/// Of the bits that say what an entry is under Unix, those of its kind, and a regular file's.
const KIND_BITS: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;

/// Reads the archive to its end, and enters what it holds. `len` is its length in bytes.
pub(super) fn read(
    upload: impl ReaderAt,
    len: u64,
    inventory: &mut Inventory,
    visit: &mut Visit<'_>,
) -> Result<(), WriteError> {
    let mut record = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let archive = ZipLocator::new().locate_in_reader(upload, &mut record, len).map_err(|(_, error)| broken(error))?;
    check_end(&archive, len)?;
    check_directory(&archive, &mut record, inventory)?;
    let mut local = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let mut entries = archive.entries(&mut record);
    while let Some(record) = entries.next_entry().map_err(broken)? {
        let entry = archive.get_entry(record.wayfinder()).map_err(broken)?;
        read_entry(&record, &entry, &mut local, inventory, visit)?;
    }
    Ok(())
}

/// Fails unless the archive ends where the file does, but for zeros, and in one way.
fn check_end<R: ReaderAt>(archive: &ZipArchive<R>, len: u64) -> Result<(), WriteError> {
    let mut chunk = [0; READ_BYTES];
    let end = archive.end_offset();
    let mut at = end;
    while at < len {
        let read = archive.get_ref().read_at(&mut chunk, at).map_err(StoreError::Io)?;
        if read == 0 {
            break;
        }
        if chunk[..read].iter().any(|&byte| byte != 0) {
            return Err(ArchiveError::invalid("bytes follow the end of the zip archive").into());
        }
        at += read as u64;
    }
    // The end's own comment could hold another end, and programs differ in which they find.
    let from = end.saturating_sub(END_BYTES + u64::from(u16::MAX));
    let mut tail = vec![0; usize::try_from(end - from).unwrap_or_default()];
    archive.get_ref().read_exact_at(&mut tail, from).map_err(cause)?;
    let ends = tail.windows(usize::try_from(END_BYTES).unwrap_or_default()).enumerate().filter(|(at, record)| {
        let comment = usize::from(u16::from_le_bytes([record[20], record[21]]));
        record.starts_with(END) && at + record.len() + comment == tail.len()
    });
    if ends.count() > 1 {
        return Err(ArchiveError::invalid("the zip archive has more than one end; make it without a comment").into());
    }
    Ok(())
}

/// Fails unless the directory is whole, and each entry has bytes of its own.
fn check_directory<R: ReaderAt>(
    archive: &ZipArchive<R>,
    record: &mut [u8],
    inventory: &mut Inventory,
) -> Result<(), WriteError> {
    let mut spans = Vec::new();
    let mut entries = archive.entries(record);
    while let Some(record) = entries.next_entry().map_err(broken)? {
        if spans.len() as u64 == ENTRIES {
            return Err(ArchiveError::invalid(format!("the zip archive has more than {ENTRIES} entries")).into());
        }
        let texts = record.file_path().len()
            + record.extra_fields().remaining_bytes().len()
            + record.comment().as_bytes().len();
        inventory.count_overhead(46 + texts as u64)?;
        let entry = archive.get_entry(record.wayfinder()).map_err(broken)?;
        let (_, end) = entry.compressed_data_range();
        if end > archive.directory_offset() {
            let path = shown(record.file_path().as_bytes());
            return Err(ArchiveError::invalid(format!("the zip archive has no room for {path}")).into());
        }
        spans.push((record.local_header_offset(), end));
    }
    if spans.len() as u64 != archive.entries_hint() {
        return Err(ArchiveError::invalid("the directory of the zip archive is not whole").into());
    }
    spans.sort_unstable();
    if spans.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err(ArchiveError::invalid("files of the zip archive share their bytes").into());
    }
    Ok(())
}

fn read_entry<R: ReaderAt>(
    record: &ZipFileHeaderRecord<'_>,
    entry: &ZipEntry<'_, R>,
    local: &mut [u8],
    inventory: &mut Inventory,
    visit: &mut Visit<'_>,
) -> Result<(), WriteError> {
    let raw = record.file_path();
    let name = name(record)?;
    let kind = record.mode().value() & KIND_BITS;
    if record.is_dir() || !matches!(kind, 0 | REGULAR) {
        return Ok(Inventory::pass(&name)?);
    }
    if record.flags().is_encrypted() || record.flags().is_masked() {
        let why = format!("{} is encrypted; make the archive without a password", shown(&name));
        return Err(ArchiveError::invalid(why).into());
    }
    check_local(record, entry, local)?;
    let method = record.compression_method();
    if !matches!(method, CompressionMethod::STORE | CompressionMethod::DEFLATE) {
        let method = method.name().map_or_else(|| format!("method {}", method.as_u16()), str::to_lowercase);
        let why = format!("{} is compressed by {method}; make the archive with deflate", shown(&name));
        return Err(ArchiveError::invalid(why).into());
    }
    let mut file = inventory.enter(&name)?;
    if name != raw.as_bytes() {
        inventory.note_foreign_name(&file.path);
    }
    if !file.is_published {
        return Ok(());
    }
    let data = entry.reader();
    if method == CompressionMethod::STORE {
        let mut source = entry.verifying_reader(data);
        Body { source: &mut source, cause, inventory, file: &mut file }.visit(visit)?;
    } else {
        let mut source = entry.verifying_reader(DeflateDecoder::new(BufReader::with_capacity(READ_BYTES, data)));
        Body { source: &mut source, cause, inventory, file: &mut file }.visit(visit)?;
    }
    Ok(inventory.keep(file)?)
}

/// Fails where what stands before a file contradicts the directory.
fn check_local<R: ReaderAt>(
    record: &ZipFileHeaderRecord<'_>,
    entry: &ZipEntry<'_, R>,
    buffer: &mut [u8],
) -> Result<(), WriteError> {
    let local = entry.local_header(buffer).map_err(broken)?;
    // Only what was compressed into a pipe has its sizes behind it.
    let is_sized = !local.flags().has_data_descriptor();
    let sizes = (local.crc32(), local.compressed_size_hint(), local.uncompressed_size_hint());
    if local.file_path().as_bytes() != record.file_path().as_bytes()
        || local.compression_method() != record.compression_method()
        || local.flags().is_encrypted()
        || is_sized && sizes != (record.crc32(), record.compressed_size_hint(), record.uncompressed_size_hint())
    {
        let path = shown(record.file_path().as_bytes());
        return Err(ArchiveError::invalid(format!("the zip archive says two things about {path}")).into());
    }
    Ok(())
}

/// The name of an entry in UTF-8. Names that are not said to be that are often so all the same; else they are of the code page
/// of DOS, or the entry has the name in UTF-8 as well.
fn name(record: &ZipFileHeaderRecord<'_>) -> Result<Vec<u8>, ArchiveError> {
    let raw = record.file_path().as_bytes().to_vec();
    if record.flags().is_utf8() || std::str::from_utf8(&raw).is_ok() {
        return Ok(raw);
    }
    let system = record.version_made_by().creator_system();
    if matches!(system, CreatorSystem::UNIX | CreatorSystem::MACOS) {
        return Ok(raw);
    }
    let decoded = codepage::decode(&raw).into_bytes();
    // Programs that know nothing of the other name use this one.
    path::judge(&decoded, Names::Folder)?;
    Ok(unicode_name(record, &raw).unwrap_or(decoded))
}

/// The name in UTF-8 that stands beside another, unless it is an older one's.
fn unicode_name(record: &ZipFileHeaderRecord<'_>, raw: &[u8]) -> Option<Vec<u8>> {
    let mut fields = record.extra_fields();
    let (_, field) = fields.find(|&(id, _)| id == ExtraFieldId::INFO_ZIP_UNICODE_PATH)?;
    let (&[1, a, b, c, d], name) = field.split_first_chunk::<5>()? else { return None };
    let mut crc = Crc::new();
    crc.update(raw);
    (crc.sum() == u32::from_le_bytes([a, b, c, d])).then(|| name.to_vec())
}

fn broken(error: rawzip::Error) -> WriteError {
    match error.into_kind() {
        ErrorKind::IO(error) => cause(error),
        ErrorKind::MissingEndOfCentralDirectory => {
            ArchiveError::invalid("the upload is no zip archive, or is cut off; upload it again").into()
        }
        kind => ArchiveError::invalid(format!("the upload is not an intact zip archive ({kind})")).into(),
    }
}

/// Tells the errors of the spooled file from the archive's.
fn cause(error: io::Error) -> WriteError {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
            ArchiveError::invalid(format!("the upload is not an intact zip archive ({error})")).into()
        }
        _ => StoreError::Io(error).into(),
    }
}
