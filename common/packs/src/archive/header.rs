//! The 512-byte header of a tar entry, validated on its raw bytes.
//!
//! The `tar` crate accepts malformed numbers (`+17`, the last eight bytes of a longer one) and uses the size in a
//! header for every kind of entry. The headers that it reads are normalized here to have the effective size.

use std::cell::Cell;

use tar::Header;

use super::{ArchiveError, path::shown};

/// Bytes of a block. A header is one block; bodies are padded to whole blocks.
pub(super) const BLOCK: usize = 512;
const SIZE: std::ops::Range<usize> = 124..136;
const CHECKSUM: std::ops::Range<usize> = 148..156;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TarEntryKind {
    File,
    /// Another path of a file that is already in the archive.
    HardLink,
    /// A directory: skipped. Kinds from here to [`Self::Special`] have no body, whatever their size field says.
    Folder,
    Symlink,
    /// A device, a named pipe or a socket: skipped.
    Special,
    /// A volume label or the listing of a dumped directory: skipped with its body.
    Listing,
    /// PAX records for the next entry.
    Pax,
    /// PAX records for all following entries.
    PaxGlobal,
    /// GNU: the name of the next entry.
    LongName,
    /// GNU: the link target of the next entry.
    LongLink,
    /// A file with holes that are not stored in the archive.
    Sparse,
    /// A kind that programs interpret differently.
    Unknown(u8),
}

impl TarEntryKind {
    pub(super) fn from_header(header: &Header) -> Self {
        match header.as_bytes()[156] {
            // The oldest archives store a directory as a file with a trailing slash.
            0 if header.path_bytes().ends_with(b"/") => Self::Folder,
            b'0' | b'7' | 0 => Self::File,
            b'1' => Self::HardLink,
            b'2' => Self::Symlink,
            b'3' | b'4' | b'6' => Self::Special,
            b'5' => Self::Folder,
            b'D' | b'V' => Self::Listing,
            b'x' => Self::Pax,
            b'g' => Self::PaxGlobal,
            b'L' => Self::LongName,
            b'K' => Self::LongLink,
            b'S' => Self::Sparse,
            other => Self::Unknown(other),
        }
    }
}

/// Validates a header and rewrites it where the `tar` crate would read it differently. Returns the body's size.
///
/// `announced` is the next entry's size from a PAX header; that entry consumes it.
pub(super) fn normalize(header: &mut Header, announced: &Cell<Option<u64>>) -> Result<u64, ArchiveError> {
    let sum = check_sum(header.as_bytes())?;
    // Nearly every header is read alike by the crate and stays unchanged.
    let mut is_plain = header.cksum().is_ok_and(|read| read == sum);
    // Any header with the POSIX magic has a prefix, whatever version it states.
    let bytes = header.as_mut_bytes();
    if &bytes[257..263] == b"ustar\0" && &bytes[263..265] != b"00" {
        bytes[263..265].copy_from_slice(b"00");
        is_plain = false;
    }
    let own = number(&header.as_bytes()[SIZE]);
    let size = match TarEntryKind::from_header(header) {
        TarEntryKind::Pax | TarEntryKind::PaxGlobal | TarEntryKind::LongName | TarEntryKind::LongLink => own,
        TarEntryKind::HardLink | TarEntryKind::Folder | TarEntryKind::Symlink | TarEntryKind::Special => {
            announced.set(None);
            Some(0)
        }
        // The PAX size is the effective one: with the header's size, a body would be read as headers.
        TarEntryKind::File | TarEntryKind::Listing | TarEntryKind::Sparse | TarEntryKind::Unknown(_) => {
            announced.take().or(own)
        }
    };
    let size =
        size.ok_or_else(|| ArchiveError::invalid(format!("{} has an impossible size", shown(&header.path_bytes()))))?;
    if !is_plain || header.entry_size().ok() != Some(size) {
        header.set_size(size);
        header.set_cksum();
    }
    Ok(size)
}

/// Returns the path in a header: prefix and name, or the name alone.
pub(super) fn path(header: &Header) -> Result<Vec<u8>, ArchiveError> {
    let bytes = header.as_bytes();
    let mut prefix_field = &[][..];
    if header.as_ustar().is_none() {
        // Python takes any content of this field for a prefix, even where other programs store times.
        let prefix = text(&bytes[345..500]);
        if prefix.starts_with(b"/") || prefix.split(|&b| b == b'/').any(|segment| segment == b"..") {
            return Err(ArchiveError::invalid(format!(
                "the prefix {} of a path has a `..` segment or is absolute",
                shown(prefix)
            )));
        }
    } else {
        // node-tar and star store two times at the end of the prefix, after a NUL.
        prefix_field = if bytes[475] == 0 { &bytes[345..475] } else { &bytes[345..500] };
    }
    for field in [&bytes[..100], prefix_field] {
        if field[text(field).len()..].iter().any(|&b| b != 0) {
            return Err(ArchiveError::invalid(format!("the path {} holds a NUL byte", shown(field))));
        }
    }
    Ok(header.path_bytes().into_owned())
}

/// Returns a text field up to its first NUL.
fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    &field[..end]
}

pub(super) fn is_header(block: &[u8; BLOCK]) -> bool {
    check_sum(block).is_ok()
}

/// Returns whether a block is zero except for an invalid checksum. node-tar and `BusyBox` take it for a block of zeros.
pub(super) fn is_blank(block: &[u8; BLOCK]) -> bool {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|&b| b == 0);
    is_zero(&block[..CHECKSUM.start])
        && is_zero(&block[CHECKSUM.end..])
        && number(&block[CHECKSUM]).is_none_or(|sum| sum == 0)
}

/// Returns the sum of the bytes, or fails if the checksum is wrong. Some old programs sum signed bytes.
fn check_sum(block: &[u8; BLOCK]) -> Result<u32, ArchiveError> {
    let field = &block[CHECKSUM];
    // Summing whole slices is vectorized; a chain around the field is not.
    let sum = |bytes: &[u8]| bytes.iter().map(|&b| u32::from(b)).sum::<u32>();
    let unsigned = sum(block) - sum(field) + 8 * u32::from(b' ');
    let said = number(field);
    if said == Some(u64::from(unsigned)) {
        return Ok(unsigned);
    }
    let sum = |bytes: &[u8]| bytes.iter().map(|&b| i64::from(b.cast_signed())).sum::<i64>();
    let signed = sum(block) - sum(field) + 8 * i64::from(b' ');
    if said.and_then(|said| i64::try_from(said).ok()) == Some(signed) {
        return Ok(unsigned);
    }
    Err(ArchiveError::invalid("a tar header has a wrong checksum; this is not an intact tar archive"))
}

/// Parses a numeric field: octal digits, or GNU's base 256. Returns `None` if it is neither, or negative.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        // 0x80 means positive, 0xff negative; values in between are invalid.
        let digits = (field[0] == 0x80).then_some(&field[1..])?;
        return digits.iter().try_fold(0_u64, |n, &b| n.checked_mul(256).map(|n| n | u64::from(b)));
    }
    // GNU tar skips one leading NUL, other programs do not.
    if field[0] == 0 && field[1..].first().is_some_and(|&b| b != 0) {
        return None;
    }
    // Leftover bytes after the end are ignored.
    let digits = text(field).trim_ascii();
    digits.iter().try_fold(0_u64, |n, &b| match b {
        b'0'..=b'7' => n.checked_mul(8).map(|n| n | u64::from(b - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (field, wanted) in [
            (&b"00000000017\0"[..], Some(15)),
            (b"         17 ", Some(15)),
            (b"17\0\0\0\0\0\0\0\0\0\0", Some(15)),
            (b"777777777777", Some(0o777_777_777_777)),
            (b"\0\0\0\0\0\0\0\0\0\0\0\0", Some(0)),
            (b"\x80\0\0\0\0\0\0\0\0\0\x01\0", Some(256)),
            (b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"\x81\0\0\0\0\0\0\0\0\0\0\x01", None),
            (b"-0000000017\0", None),
            (b"00000000018\0", None),
            (b"\0\0\0\0\0\0\0\0\0\0\x005", Some(0)),
            (b"\x005\0\0\0\0\0\0\0\0\0\0", None),
            (b"17\x0018\0\0\0\0\0\0\0", Some(15)),
            (b"17 17\0\0\0\0\0\0\0", None),
            (b"0x1f\0\0\0\0\0\0\0\0", None),
        ] {
            assert_eq!(number(field), wanted, "{}", field.escape_ascii());
        }
    }
}
