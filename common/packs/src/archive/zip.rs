//! Reads a zip archive with `rawzip`.
//!
//! The directory at the end of a zip archive is authoritative: data before it may be left over, and a reader that
//! starts at the front has to guess where a streamed file ends. Uploads are files, so the directory is read first and
//! validated as a whole ([`layout`]): entries that share bytes, with which a small archive expands without end, are
//! rejected before extraction. Each local header must agree with the directory, because some programs read only the
//! former; an archive in which programs would read different names, kinds or contents is rejected.

use std::io::{self, BufReader};

use flate2::{Crc, bufread::DeflateDecoder};
use rawzip::{
    CompressionMethod, CreatorSystem, ErrorKind, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ReaderAt, ZipArchive, ZipEntry,
    ZipFileHeaderRecord, ZipLocalFileHeader, ZipLocator, extra_fields::ExtraFieldId,
};

use super::{
    ArchiveError, MemberBody, MemberVisitor, codepage,
    inventory::{ArchiveInventory, EnteredFile},
    layout::{self, ZipPart},
    path::{self, PathKind, shown},
};
use crate::{StoreError, WriteError};

/// Maximum number of directory entries, including folders and skipped files. The position of each is kept in memory.
const ENTRIES: u64 = 100_000;
const READ_BYTES: usize = 16 * 1024;
/// Bytes of a directory entry without its texts.
const ENTRY_BYTES: u64 = 46;
/// Unix mode bits of the entry's kind, and their values.
const KIND_BITS: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;
/// Pipes, character and block devices, and sockets.
const SPECIAL: [u32; 4] = [0o010_000, 0o020_000, 0o060_000, 0o140_000];
/// The DOS attribute of a volume label, which unzip skips.
const VOLUME_LABEL: u32 = 0x08;

/// Reads the archive of `len` bytes to its end and adds its entries to the inventory.
pub(super) fn read(
    upload: impl ReaderAt,
    len: u64,
    inventory: &mut ArchiveInventory,
    visit: &mut MemberVisitor<'_>,
) -> Result<(), WriteError> {
    let mut record = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let archive = ZipLocator::new().locate_in_reader(upload, &mut record, len).map_err(|(_, error)| broken(error))?;
    layout::check_end(&archive, len)?;
    let ZipDirectory { is_in_order, separator } = check_directory(&archive, &mut record, inventory)?;
    let mut local = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let mut entries = archive.entries(&mut record);
    while let Some(record) = entries.next_entry().map_err(broken)? {
        let entry = archive.get_entry(record.wayfinder()).map_err(broken)?;
        let local = entry.local_header(&mut local).map_err(broken)?;
        let file = enter(&record, &local, separator, inventory)?;
        if !is_in_order && file.is_published && inventory.has_file(&file.path) {
            let path = shown(file.path.as_bytes());
            let why = format!("the zip archive holds {path} twice, and programs differ in which comes last");
            return Err(ArchiveError::invalid(why).into());
        }
        read_body(&record, &entry, file, inventory, visit)?;
    }
    Ok(())
}

struct ZipDirectory {
    /// Whether the entries are stored in directory order.
    is_in_order: bool,
    separator: u8,
}

/// Fails unless the directory is complete and no entries overlap.
fn check_directory<R: ReaderAt>(
    archive: &ZipArchive<R>,
    record: &mut [u8],
    inventory: &mut ArchiveInventory,
) -> Result<ZipDirectory, WriteError> {
    let (mut has_slash, mut is_all_dos) = (false, true);
    let mut parts = Vec::new();
    let mut len = 0;
    let mut entries = archive.entries(record);
    while let Some(record) = entries.next_entry().map_err(broken)? {
        if parts.len() as u64 == ENTRIES {
            return Err(ArchiveError::invalid(format!("the zip archive has more than {ENTRIES} entries")).into());
        }
        has_slash |= record.file_path().as_bytes().contains(&b'/');
        let system = record.version_made_by().creator_system();
        is_all_dos &= matches!(system, CreatorSystem::FAT | CreatorSystem::NTFS);
        let texts = record.file_path().len()
            + record.extra_fields().remaining_bytes().len()
            + record.comment().as_bytes().len();
        inventory.count_overhead(ENTRY_BYTES + texts as u64)?;
        len += ENTRY_BYTES + texts as u64;
        let entry = archive.get_entry(record.wayfinder()).map_err(broken)?;
        let (_, end) = entry.compressed_data_range();
        if end > archive.directory_offset() {
            let path = shown(record.file_path().as_bytes());
            return Err(ArchiveError::invalid(format!("the zip archive has no room for {path}")).into());
        }
        parts.push(ZipPart {
            start: record.local_header_offset(),
            end,
            crc: record.crc32(),
            compressed: record.compressed_size_hint(),
            size: record.uncompressed_size_hint(),
        });
    }
    layout::check_directory_end(archive, parts.len() as u64, len)?;
    let is_in_order = parts.is_sorted_by_key(|part| part.start);
    layout::check_parts(archive, &mut parts)?;
    // Windows PowerShell's `Compress-Archive` writes backslashes, which unzip and bsdtar read as slashes here.
    let separator = if is_all_dos && !has_slash { b'\\' } else { b'/' };
    Ok(ZipDirectory { is_in_order, separator })
}

/// Validates the metadata of an entry and adds it to the inventory.
fn enter(
    record: &ZipFileHeaderRecord<'_>,
    local: &ZipLocalFileHeader<'_>,
    separator: u8,
    inventory: &mut ArchiveInventory,
) -> Result<EnteredFile, ArchiveError> {
    let raw = record.file_path().as_bytes();
    if record.flags().is_encrypted() || record.flags().is_masked() {
        let why = format!("{} is encrypted; make the archive without a password", shown(raw));
        return Err(ArchiveError::invalid(why));
    }
    if !headers_agree(record, local) {
        return Err(contradiction(raw));
    }
    let method = record.compression_method();
    if !matches!(method, CompressionMethod::STORE | CompressionMethod::DEFLATE) {
        let method = method.name().map_or_else(|| format!("method {}", method.as_u16()), str::to_lowercase);
        let why = format!("{} is compressed by {method}; make the archive with deflate", shown(raw));
        return Err(ArchiveError::invalid(why));
    }
    let mut name = name(record, local)?;
    let is_foreign = name != raw;
    if separator != b'/' {
        name.iter_mut().filter(|byte| **byte == separator).for_each(|byte| *byte = b'/');
    }
    let passed = EnteredFile { path: shown(&name), is_published: false, bytes: 0 };
    match kind(record)? {
        ZipEntryKind::File if separator == b'/' || !name.ends_with(b"/") => {
            let file = inventory.enter(&name)?;
            if is_foreign {
                inventory.note_foreign_name(&file.path);
            }
            Ok(file)
        }
        ZipEntryKind::Symlink => {
            inventory.enter_symlink(&name)?;
            Ok(passed)
        }
        ZipEntryKind::Special => {
            inventory.enter_special(&name)?;
            Ok(passed)
        }
        ZipEntryKind::File | ZipEntryKind::Folder => {
            ArchiveInventory::check_path(&name)?;
            Ok(passed)
        }
    }
}

enum ZipEntryKind {
    File,
    Folder,
    Symlink,
    Special,
}

/// Returns whether an entry's local header agrees with the directory.
fn headers_agree(record: &ZipFileHeaderRecord<'_>, local: &ZipLocalFileHeader<'_>) -> bool {
    let is_same =
        |local: u64, said: u64, is_behind: bool| local == said || is_behind && matches!(local, 0 | 0xffff_ffff);
    // Only streamed files have their sizes after their data.
    let is_behind = local.flags().has_data_descriptor();
    local.file_path().as_bytes() == record.file_path().as_bytes()
        && local.compression_method() == record.compression_method()
        && local.flags().is_utf8() == record.flags().is_utf8()
        && !local.flags().is_encrypted()
        && is_same(local.crc32().into(), record.crc32().into(), is_behind)
        && is_same(local.compressed_size_hint(), record.compressed_size_hint(), is_behind)
        && is_same(local.uncompressed_size_hint(), record.uncompressed_size_hint(), is_behind)
}

fn contradiction(name: &[u8]) -> ArchiveError {
    ArchiveError::invalid(format!("the zip archive says two things about {}", shown(name)))
}

/// Returns the kind of an entry, if all programs agree on it.
fn kind(record: &ZipFileHeaderRecord<'_>) -> Result<ZipEntryKind, ArchiveError> {
    if record.is_dir() {
        return Ok(ZipEntryKind::Folder);
    }
    let system = record.version_made_by().creator_system();
    let is_dos = matches!(system, CreatorSystem::FAT | CreatorSystem::NTFS | CreatorSystem::MVS | CreatorSystem::VFAT);
    let said = record.external_attributes() >> 16 & KIND_BITS;
    let kind = record.mode().value() & KIND_BITS;
    // Some programs use the mode and some the name, and some recognize only Unix symlinks.
    let is_unix = system == CreatorSystem::UNIX;
    let is_label = !is_unix && record.external_attributes() & VOLUME_LABEL != 0;
    if kind == FOLDER || said == FOLDER || said == SYMLINK && !is_dos && !is_unix || is_label {
        return Err(contradiction(record.file_path().as_bytes()));
    }
    match kind {
        0 | REGULAR if !is_unix || matches!(said, 0 | REGULAR) => Ok(ZipEntryKind::File),
        SYMLINK => Ok(ZipEntryKind::Symlink),
        special if SPECIAL.contains(&special) && record.uncompressed_size_hint() == 0 => Ok(ZipEntryKind::Special),
        // A device with content, or an unknown kind: most programs ignore the accidental mode and read a file.
        _ => Err(contradiction(record.file_path().as_bytes())),
    }
}

fn read_body<R: ReaderAt>(
    record: &ZipFileHeaderRecord<'_>,
    entry: &ZipEntry<'_, R>,
    mut file: EnteredFile,
    inventory: &mut ArchiveInventory,
    visit: &mut MemberVisitor<'_>,
) -> Result<(), WriteError> {
    if record.compression_method() == CompressionMethod::STORE {
        let mut source = entry.verifying_reader(entry.reader());
        MemberBody { source: &mut source, cause, inventory, file: &mut file }.visit(visit)?;
    } else if record.compressed_size_hint() > 0 || file.is_published {
        let mut deflate = DeflateDecoder::new(BufReader::with_capacity(READ_BYTES, entry.reader()));
        let mut source = entry.verifying_reader(&mut deflate);
        MemberBody { source: &mut source, cause, inventory, file: &mut file }.visit(visit)?;
        // A program that does not know the size in advance would read the remaining bytes.
        if deflate.total_in() != record.compressed_size_hint() {
            return Err(contradiction(record.file_path().as_bytes()).into());
        }
    }
    inventory.keep(file);
    Ok(())
}

/// Returns the name of an entry in UTF-8. A name without the UTF-8 flag is often UTF-8 nevertheless; otherwise it is in
/// the DOS code page, or an extra field has the name in UTF-8.
fn name(record: &ZipFileHeaderRecord<'_>, local: &ZipLocalFileHeader<'_>) -> Result<Vec<u8>, ArchiveError> {
    let raw = record.file_path().as_bytes();
    let mut beside = [record.extra_fields(), local.extra_fields()]
        .into_iter()
        .flatten()
        .filter(|&(id, _)| id == ExtraFieldId::INFO_ZIP_UNICODE_PATH)
        .filter_map(|(_, field)| unicode_name(field, raw));
    let unicode = beside.next();
    if beside.any(|other| Some(other) != unicode) {
        return Err(contradiction(raw));
    }
    if record.flags().is_utf8() || std::str::from_utf8(raw).is_ok() {
        // Info-ZIP, 7-Zip and bsdtar use the second name, Go and Java the first.
        return match unicode {
            Some(other) if other != raw => {
                let why = format!("{} has a second name; make the archive with names in UTF-8 alone", shown(raw));
                Err(ArchiveError::invalid(why))
            }
            _ => Ok(raw.to_vec()),
        };
    }
    let decoded = codepage::decode(raw).into_bytes();
    // Programs that ignore the extra field use this name.
    path::validate(&decoded, PathKind::Folder)?;
    match unicode {
        Some(name) if name.ends_with(b"/") == raw.ends_with(b"/") => Ok(name.to_vec()),
        Some(_) => Err(contradiction(raw)),
        None => {
            let system = record.version_made_by().creator_system();
            let is_unix = matches!(system, CreatorSystem::UNIX | CreatorSystem::MACOS);
            Ok(if is_unix { raw.to_vec() } else { decoded })
        }
    }
}

/// Returns the UTF-8 name in an extra field, or `None` if the field was made for an older name. For Info-ZIP an empty
/// name means that the first name is in UTF-8; 7-Zip uses it as the name.
fn unicode_name<'f>(field: &'f [u8], raw: &[u8]) -> Option<&'f [u8]> {
    let (&[1, a, b, c, d], name) = field.split_first_chunk::<5>()? else { return None };
    let mut crc = Crc::new();
    crc.update(raw);
    (crc.sum() == u32::from_le_bytes([a, b, c, d])).then_some(name)
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

/// Separates errors of the spooled file from errors in the archive.
pub(super) fn cause(error: io::Error) -> WriteError {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
            ArchiveError::invalid(format!("the upload is not an intact zip archive ({error})")).into()
        }
        _ => StoreError::Io(error).into(),
    }
}
