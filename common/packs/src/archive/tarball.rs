//! Reads a tar archive with the `tar` crate, entry by entry.
//!
//! The crate walks headers that were validated and normalized before ([`Blocks`]). Names announced for the next entry
//! are assembled here, where their length is bounded.

use std::io::{self, Read};

use tar::{Archive, Entry, Header};

use super::{
    ArchiveError, Body, METADATA_BYTES, Member, OVERHEAD_BYTES, Visit,
    blocks::{Blocks, Progress},
    decode::Decoder,
    header::{self, BLOCK, Kind},
    inventory::Inventory,
    path::shown,
    pax::{Records, announce},
};
use crate::WriteError;

const REST_CHUNK: usize = 16 * 1024;

/// Extended headers that precede an entry.
#[derive(Default)]
struct Extras {
    pax: Option<Records>,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    /// Whether two of them contradict each other.
    disagree: bool,
}

impl Extras {
    fn is_empty(&self) -> bool {
        self.pax.is_none() && self.long_name.is_none() && self.long_link.is_none()
    }

    /// Sets the name. A replaced name is still validated, because another program may use it.
    fn name(&mut self, name: Vec<u8>) -> Result<(), ArchiveError> {
        let before = self.long_name.clone();
        if !announce(&mut self.long_name, Some(name)) {
            self.disagree = true;
            judge_replaced(before)?;
        }
        Ok(())
    }

    fn records(&mut self, records: Records) -> Result<(), ArchiveError> {
        let pax = self.pax.get_or_insert_default();
        let before = pax.path.clone();
        if !pax.merge(records) {
            self.disagree = true;
            judge_replaced(before)?;
        }
        Ok(())
    }
}

fn judge_replaced(name: Option<Vec<u8>>) -> Result<(), ArchiveError> {
    name.filter(|name| !name.is_empty()).map_or(Ok(()), |name| Inventory::pass(&name))
}

/// Reads the archive to its end and adds its entries to the inventory.
pub(super) fn read<R: Read>(
    decoder: Decoder<R>,
    inventory: &mut Inventory,
    visit: &mut Visit<'_>,
) -> Result<(), WriteError> {
    let progress = Progress::default();
    let mut archive = Archive::new(Blocks::new(decoder, &progress, OVERHEAD_BYTES));
    let mut extras = Extras::default();
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
fn check_announced(extras: &Extras) -> Result<(), ArchiveError> {
    if extras.is_empty() {
        return Ok(());
    }
    Err(ArchiveError::invalid("the archive ends where an entry was announced"))
}

fn read_entry<R: Read>(
    entry: &mut Entry<'_, Blocks<'_, R>>,
    progress: &Progress,
    extras: &mut Extras,
    inventory: &mut Inventory,
    visit: &mut Visit<'_>,
) -> Result<(), WriteError> {
    let header = entry.header().clone();
    let kind = Kind::of(&header);
    match kind {
        Kind::Pax => {
            let records = Records::parse(&metadata(entry, inventory)?)?;
            extras.records(records)?;
            progress.announced.set(extras.pax.as_ref().and_then(|pax| pax.size));
        }
        Kind::LongName => extras.name(long_name(entry, inventory)?)?,
        Kind::LongLink => extras.disagree |= !announce(&mut extras.long_link, Some(long_name(entry, inventory)?)),
        Kind::PaxGlobal => {
            if Records::parse(&metadata(entry, inventory)?)? != Records::default() {
                return Err(ArchiveError::invalid("a global PAX header names or sizes the files after it").into());
            }
        }
        _ => {
            let (raw, link, agree) = names(&header, std::mem::take(extras))?;
            let kind = if kind == Kind::File && header.as_bytes()[156] == 0 && raw.ends_with(b"/") {
                Kind::Listing
            } else {
                kind
            };
            if !agree && matches!(kind, Kind::File | Kind::HardLink) {
                return Err(ArchiveError::invalid(format!("two extended headers of {} differ", shown(&raw))).into());
            }
            match kind {
                Kind::HardLink => {
                    if let Some((path, target)) = inventory.enter_link(&raw, &link)? {
                        let must_repeat = inventory.is_past_end();
                        visit(Member::Link { path: &path, target: &target, must_repeat })?;
                    }
                }
                Kind::Folder => Inventory::pass(&raw)?,
                Kind::Symlink => inventory.enter_symlink(&raw)?,
                Kind::Special => inventory.enter_special(&raw)?,
                Kind::Listing => {
                    Inventory::pass(&raw)?;
                    skip(entry, inventory)?;
                }
                Kind::Sparse => {
                    return Err(refused(
                        &raw,
                        "a sparse file; make the archive without `--sparse`, or with bsdtar by `--no-read-sparse`",
                    ));
                }
                Kind::Unknown(kind) => {
                    return Err(refused(&raw, &format!("of the unknown kind `{}`", kind.escape_ascii())));
                }
                _ => {
                    let size = entry.size();
                    let mut file = inventory.enter(&raw)?;
                    inventory.count_overhead(size.next_multiple_of(BLOCK as u64) - size)?;
                    Body { source: entry, cause, inventory, file: &mut file }.visit(visit)?;
                    inventory.keep(file);
                }
            }
        }
    }
    Ok(())
}

/// Returns an entry's path, its link target, and whether all its extended headers agree.
fn names(header: &Header, extras: Extras) -> Result<(Vec<u8>, Vec<u8>, bool), ArchiveError> {
    let Extras { pax, long_name, long_link, disagree } = extras;
    let Records { mut path, mut link, .. } = pax.unwrap_or_default();
    let before = path.clone();
    let (path_agrees, link_agrees) = (announce(&mut path, long_name), announce(&mut link, long_link));
    let agree = path_agrees && link_agrees && !disagree;
    if !agree {
        judge_replaced(before)?;
    }
    let path = path.map_or_else(|| header::path(header), Ok)?;
    let link = link.or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned));
    Ok((path, link.unwrap_or_default(), agree))
}

/// Reads the body of a GNU entry that names the next entry.
fn long_name(entry: &mut impl Read, inventory: &mut Inventory) -> Result<Vec<u8>, WriteError> {
    let mut name = metadata(entry, inventory)?;
    // GNU tar ends the name with one NUL, others fill the block. A NUL within the name stays and is rejected later.
    name.truncate(name.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1));
    Ok(name)
}

/// Reads the body of an entry that describes the next entry.
fn metadata(entry: &mut impl Read, inventory: &mut Inventory) -> Result<Vec<u8>, WriteError> {
    let mut text = Vec::new();
    entry.take(METADATA_BYTES + 1).read_to_end(&mut text).map_err(cause)?;
    if text.len() as u64 > METADATA_BYTES {
        return Err(ArchiveError::invalid("an extended header is larger than 1 MB").into());
    }
    inventory.count_overhead((text.len() as u64).next_multiple_of(BLOCK as u64))?;
    Ok(text)
}

fn skip(entry: &mut impl Read, inventory: &mut Inventory) -> Result<(), WriteError> {
    let mut skipped = [0; 8 * BLOCK];
    loop {
        let read = entry.read(&mut skipped).map_err(cause)?;
        if read == 0 {
            return Ok(());
        }
        inventory.count_overhead(read as u64)?;
    }
}

/// Unwraps an error of [`Blocks`] that passed through the crate, or converts one of the crate's own.
fn cause(error: io::Error) -> WriteError {
    error
        .downcast::<WriteError>()
        .unwrap_or_else(|error| ArchiveError::invalid(format!("this is not an intact tar archive ({error})")).into())
}

fn refused(path: &[u8], what: &str) -> WriteError {
    ArchiveError::invalid(format!("{} is {what}: only regular files can be published", shown(path))).into()
}
