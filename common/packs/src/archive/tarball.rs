//! Reads a tar archive with the `tar` crate, entry by entry as they stand there.
//!
//! The crate walks; what it reads was judged and made plain before ([`Blocks`]), and names that are announced for the next
//! entry are put together here, where their length has a bound.

use std::{
    cell::Cell,
    io::{self, Read},
};

use tar::{Archive, Entry, Header};

use super::{
    ArchiveError, Body, METADATA_BYTES, Member, Visit,
    blocks::Blocks,
    decode::Decoder,
    header::{self, BLOCK, Kind},
    inventory::Inventory,
    path::shown,
    pax::{Records, announce},
};
use crate::WriteError;

/// Bytes after the end of an archive that are read at once.
const REST_CHUNK: usize = 16 * 1024;

/// The headers that stood before an entry and belong to it.
#[derive(Default)]
struct Extras {
    pax: Option<Records>,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

/// Reads the archive to its end, and enters what it holds.
pub(super) fn read<R: Read>(
    decoder: Decoder<R>,
    inventory: &mut Inventory,
    visit: &mut Visit<'_>,
) -> Result<(), WriteError> {
    let announced = Cell::new(None);
    let mut archive = Archive::new(Blocks::new(decoder, &announced));
    let mut extras = Extras::default();
    for entry in archive.entries().map_err(cause)?.raw(true) {
        let mut entry = entry.map_err(cause)?;
        inventory.count_overhead(BLOCK as u64)?;
        read_entry(&mut entry, &announced, &mut extras, inventory, visit)?;
    }
    if extras.pax.is_some() || extras.long_name.is_some() || extras.long_link.is_some() {
        return Err(ArchiveError::invalid("the archive ends where an entry was announced").into());
    }
    // Whatever follows the end is no part of the archive: padding, or what another archive left there. It is read for the
    // sake of the checksums, which say that the archive is whole.
    let mut decoder = archive.into_inner().into_inner();
    let mut rest = [0; REST_CHUNK];
    loop {
        let read = decoder.read(&mut rest)?;
        if read == 0 {
            return Ok(());
        }
        inventory.count_overhead(read as u64)?;
    }
}

fn read_entry<R: Read>(
    entry: &mut Entry<'_, Blocks<'_, R>>,
    announced: &Cell<Option<u64>>,
    extras: &mut Extras,
    inventory: &mut Inventory,
    visit: &mut Visit<'_>,
) -> Result<(), WriteError> {
    let header = entry.header().clone();
    let kind = Kind::of(&header);
    match kind {
        Kind::Pax => {
            let records = Records::parse(&metadata(entry, inventory)?)?;
            let pax = extras.pax.get_or_insert_default();
            pax.merge(records)?;
            announced.set(pax.size);
        }
        Kind::LongName => announce(&mut extras.long_name, Some(long_name(entry, inventory)?))?,
        Kind::LongLink => announce(&mut extras.long_link, Some(long_name(entry, inventory)?))?,
        Kind::PaxGlobal => {
            if Records::parse(&metadata(entry, inventory)?)? != Records::default() {
                return Err(ArchiveError::invalid("a global PAX header names or sizes the files after it").into());
            }
        }
        _ => {
            let (raw, link) = names(&header, std::mem::take(extras))?;
            let kind = if kind == Kind::File && header.as_bytes()[156] == 0 && raw.ends_with(b"/") {
                Kind::Listing
            } else {
                kind
            };
            match kind {
                Kind::HardLink => {
                    if let Some((path, target)) = inventory.enter_link(&raw, &link)? {
                        visit(Member::Link { path: &path, target: &target })?;
                    }
                }
                Kind::Skipped => Inventory::pass(&raw)?,
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
                    inventory.keep(file)?;
                }
            }
        }
    }
    Ok(())
}

/// The path of an entry and where it leads to, if it is a link.
fn names(header: &Header, extras: Extras) -> Result<(Vec<u8>, Vec<u8>), ArchiveError> {
    let Extras { pax, long_name, long_link } = extras;
    let Records { mut path, mut link, .. } = pax.unwrap_or_default();
    announce(&mut path, long_name)?;
    announce(&mut link, long_link)?;
    let path = path.map_or_else(|| header::path(header), Ok)?;
    let link = link.or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned));
    Ok((path, link.unwrap_or_default()))
}

/// The body of a GNU entry that names another.
fn long_name(entry: &mut impl Read, inventory: &mut Inventory) -> Result<Vec<u8>, WriteError> {
    let mut name = metadata(entry, inventory)?;
    name.truncate(name.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1));
    Ok(name)
}

/// The body of an entry that describes another.
fn metadata(entry: &mut impl Read, inventory: &mut Inventory) -> Result<Vec<u8>, WriteError> {
    let mut text = Vec::new();
    entry.take(METADATA_BYTES + 1).read_to_end(&mut text).map_err(cause)?;
    if text.len() as u64 > METADATA_BYTES {
        return Err(ArchiveError::invalid("an extended header is larger than 1 MB").into());
    }
    inventory.count_overhead((text.len() as u64).next_multiple_of(BLOCK as u64))?;
    Ok(text)
}

/// Passes over a body that is no file's.
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

/// The error that [`Blocks`] gave, on its way through the crate; or one of the crate's own.
fn cause(error: io::Error) -> WriteError {
    error
        .downcast::<WriteError>()
        .unwrap_or_else(|error| ArchiveError::invalid(format!("this is not an intact tar archive ({error})")).into())
}

fn refused(path: &[u8], what: &str) -> WriteError {
    ArchiveError::invalid(format!("{} is {what}: only regular files can be published", shown(path))).into()
}
