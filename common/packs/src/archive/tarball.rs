//! Reads a tar archive with the `tar` crate, entry by entry.
//!
//! The crate walks headers that were validated and normalized before ([`TarBlocks`]). Names announced for the next entry
//! are assembled here, where their length is bounded.

use std::io::{self, Read};

use tar::{Archive, Entry, Header};

use super::{
    ArchiveError, ArchiveMember, METADATA_BYTES, MemberBody, MemberVisitor, OVERHEAD_BYTES,
    blocks::{TarBlocks, TarProgress},
    decode::UploadDecoder,
    header::{self, BLOCK, TarEntryKind},
    inventory::ArchiveInventory,
    path::shown,
    pax::{PaxRecords, set_once},
};
use crate::WriteError;

const REST_CHUNK: usize = 16 * 1024;

/// Extended headers that precede an entry.
#[derive(Default)]
struct ExtendedHeaders {
    pax: Option<PaxRecords>,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    /// Whether two of them contradict each other.
    disagree: bool,
}

impl ExtendedHeaders {
    fn is_empty(&self) -> bool {
        self.pax.is_none() && self.long_name.is_none() && self.long_link.is_none()
    }

    /// Sets the name. A replaced name is still validated, because another program may use it.
    fn name(&mut self, name: Vec<u8>) -> Result<(), ArchiveError> {
        let before = self.long_name.clone();
        if !set_once(&mut self.long_name, Some(name)) {
            self.disagree = true;
            validate_replaced(before)?;
        }
        Ok(())
    }

    fn records(&mut self, records: PaxRecords) -> Result<(), ArchiveError> {
        let pax = self.pax.get_or_insert_default();
        let before = pax.path.clone();
        if !pax.merge(records) {
            self.disagree = true;
            validate_replaced(before)?;
        }
        Ok(())
    }
}

fn validate_replaced(name: Option<Vec<u8>>) -> Result<(), ArchiveError> {
    name.filter(|name| !name.is_empty()).map_or(Ok(()), |name| ArchiveInventory::check_path(&name))
}

/// Reads the archive to its end and adds its entries to the inventory.
pub(super) fn read<R: Read>(
    decoder: UploadDecoder<R>,
    inventory: &mut ArchiveInventory,
    visit: &mut MemberVisitor<'_>,
) -> Result<(), WriteError> {
    let progress = TarProgress::default();
    let mut archive = Archive::new(TarBlocks::new(decoder, &progress, OVERHEAD_BYTES));
    let mut extras = ExtendedHeaders::default();
    for entry in archive.entries().map_err(cause)?.raw(true) {
        let mut entry = entry.map_err(cause)?;
        inventory.count_overhead(BLOCK as u64)?;
        if progress.is_past_zeros() && !inventory.is_past_end() {
            check_announced(&extras)?;
            inventory.set_past_end();
        }
        read_entry(&mut entry, &progress, &mut extras, inventory, visit)?;
    }
    if !inventory.is_past_end() {
        check_announced(&extras)?;
    }
    // The rest is padding or another archive. Reading it verifies checksums, which show that the archive is complete.
    let mut decoder = archive.into_inner().into_inner();
    let mut rest = [0; REST_CHUNK];
    loop {
        let read = decoder.read(&mut rest)?;
        if read == 0 {
            return Ok(());
        }
        inventory.count_overhead(read as u64)?;
        if rest[..read].iter().any(|&byte| byte != 0) {
            inventory.note_rest();
        }
    }
}

/// Fails if the archive ends after an extended header without an entry.
fn check_announced(extras: &ExtendedHeaders) -> Result<(), ArchiveError> {
    if extras.is_empty() {
        return Ok(());
    }
    Err(ArchiveError::invalid("the archive ends where an entry was announced"))
}

fn read_entry<R: Read>(
    entry: &mut Entry<'_, TarBlocks<'_, R>>,
    progress: &TarProgress,
    extras: &mut ExtendedHeaders,
    inventory: &mut ArchiveInventory,
    visit: &mut MemberVisitor<'_>,
) -> Result<(), WriteError> {
    let header = entry.header().clone();
    let kind = TarEntryKind::from_header(&header);
    match kind {
        TarEntryKind::Pax => {
            let records = PaxRecords::parse(&metadata(entry, inventory)?)?;
            extras.records(records)?;
            progress.announced.set(extras.pax.as_ref().and_then(|pax| pax.size));
        }
        TarEntryKind::LongName => extras.name(long_name(entry, inventory)?)?,
        TarEntryKind::LongLink => {
            extras.disagree |= !set_once(&mut extras.long_link, Some(long_name(entry, inventory)?));
        }
        TarEntryKind::PaxGlobal => {
            if PaxRecords::parse(&metadata(entry, inventory)?)? != PaxRecords::default() {
                return Err(ArchiveError::invalid("a global PAX header names or sizes the files after it").into());
            }
        }
        _ => {
            let (raw, link, agree) = entry_names(&header, std::mem::take(extras))?;
            let kind = if kind == TarEntryKind::File && header.as_bytes()[156] == 0 && raw.ends_with(b"/") {
                TarEntryKind::Listing
            } else {
                kind
            };
            if !agree && matches!(kind, TarEntryKind::File | TarEntryKind::HardLink) {
                return Err(ArchiveError::invalid(format!("two extended headers of {} differ", shown(&raw))).into());
            }
            match kind {
                TarEntryKind::HardLink => {
                    if let Some((path, target)) = inventory.enter_link(&raw, &link)? {
                        let must_repeat = inventory.is_past_end();
                        visit(ArchiveMember::Link { path: &path, target: &target, must_repeat })?;
                    }
                }
                TarEntryKind::Folder => ArchiveInventory::check_path(&raw)?,
                TarEntryKind::Symlink => inventory.enter_symlink(&raw)?,
                TarEntryKind::Special => inventory.enter_special(&raw)?,
                TarEntryKind::Listing => {
                    ArchiveInventory::check_path(&raw)?;
                    skip(entry, inventory)?;
                }
                TarEntryKind::Sparse => {
                    return Err(refused(
                        &raw,
                        "a sparse file; make the archive without `--sparse`, or with bsdtar by `--no-read-sparse`",
                    ));
                }
                TarEntryKind::Unknown(kind) => {
                    return Err(refused(&raw, &format!("of the unknown kind `{}`", kind.escape_ascii())));
                }
                _ => {
                    let size = entry.size();
                    let mut file = inventory.enter(&raw)?;
                    inventory.count_overhead(size.next_multiple_of(BLOCK as u64) - size)?;
                    MemberBody { source: entry, cause, inventory, file: &mut file }.visit(visit)?;
                    inventory.keep(file);
                }
            }
        }
    }
    Ok(())
}

/// Returns an entry's path, its link target, and whether all its extended headers agree.
fn entry_names(header: &Header, extras: ExtendedHeaders) -> Result<(Vec<u8>, Vec<u8>, bool), ArchiveError> {
    let ExtendedHeaders { pax, long_name, long_link, disagree } = extras;
    let PaxRecords { mut path, mut link, .. } = pax.unwrap_or_default();
    let before = path.clone();
    let (path_agrees, link_agrees) = (set_once(&mut path, long_name), set_once(&mut link, long_link));
    let agree = path_agrees && link_agrees && !disagree;
    if !agree {
        validate_replaced(before)?;
    }
    let path = path.map_or_else(|| header::path(header), Ok)?;
    let link = link.or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned));
    Ok((path, link.unwrap_or_default(), agree))
}

/// Reads the body of a GNU entry that names the next entry.
fn long_name(entry: &mut impl Read, inventory: &mut ArchiveInventory) -> Result<Vec<u8>, WriteError> {
    let mut name = metadata(entry, inventory)?;
    // GNU tar ends the name with one NUL, others fill the block. A NUL within the name stays and is rejected later.
    name.truncate(name.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1));
    Ok(name)
}

/// Reads the body of an entry that describes the next entry.
fn metadata(entry: &mut impl Read, inventory: &mut ArchiveInventory) -> Result<Vec<u8>, WriteError> {
    let mut text = Vec::new();
    entry.take(METADATA_BYTES + 1).read_to_end(&mut text).map_err(cause)?;
    if text.len() as u64 > METADATA_BYTES {
        return Err(ArchiveError::invalid("an extended header is larger than 1 MB").into());
    }
    inventory.count_overhead((text.len() as u64).next_multiple_of(BLOCK as u64))?;
    Ok(text)
}

fn skip(entry: &mut impl Read, inventory: &mut ArchiveInventory) -> Result<(), WriteError> {
    let mut skipped = [0; 8 * BLOCK];
    loop {
        let read = entry.read(&mut skipped).map_err(cause)?;
        if read == 0 {
            return Ok(());
        }
        inventory.count_overhead(read as u64)?;
    }
}

/// Unwraps an error of [`TarBlocks`] that passed through the crate, or converts one of the crate's own.
fn cause(error: io::Error) -> WriteError {
    error
        .downcast::<WriteError>()
        .unwrap_or_else(|error| ArchiveError::invalid(format!("this is not an intact tar archive ({error})")).into())
}

fn refused(path: &[u8], what: &str) -> WriteError {
    ArchiveError::invalid(format!("{} is {what}: only regular files can be published", shown(path))).into()
}
