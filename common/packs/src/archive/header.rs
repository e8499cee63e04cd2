//! The 512-byte header block of a tar entry.

use super::{ArchiveError, path::shown};

/// Bytes of a block: headers are one, bodies are padded to whole ones.
pub(super) const BLOCK: usize = 512;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A regular file.
    File,
    /// A file that stands in the archive already, under another path.
    HardLink,
    /// A directory, a symlink, a device or a named pipe: skipped.
    Skipped,
    /// PAX records for the next entry.
    Pax,
    /// PAX records for all entries that follow.
    PaxGlobal,
    /// GNU: the name of the next entry.
    LongName,
    /// GNU: the link target of the next entry.
    LongLink,
}

/// A header whose checksum is right.
pub(super) struct Header<'b>(&'b [u8; BLOCK]);

impl<'b> Header<'b> {
    pub(super) fn parse(block: &'b [u8; BLOCK]) -> Result<Self, ArchiveError> {
        let header = Self(block);
        let sum: u64 = block.iter().map(|&b| u64::from(b)).sum();
        let field = &block[148..156];
        let without_field = sum - field.iter().map(|&b| u64::from(b)).sum::<u64>() + 8 * u64::from(b' ');
        if number(field) == Some(without_field) {
            Ok(header)
        } else {
            Err(ArchiveError::invalid("a tar header has a wrong checksum; this is not an intact tar archive"))
        }
    }

    /// The entry's path as the header has it: prefix and name, or the name alone.
    pub(super) fn path(&self) -> Result<Vec<u8>, ArchiveError> {
        let name = text(&self.0[..100])?;
        // Only POSIX headers have a prefix; GNU's keep times there, and the oldest nothing.
        let prefix = if &self.0[257..263] == b"ustar\0" { text(&self.0[345..500])? } else { b"" };
        Ok(if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() })
    }

    /// The path that a link leads to, as the header has it.
    pub(super) fn link(&self) -> Result<Vec<u8>, ArchiveError> {
        text(&self.0[157..257]).map(<[u8]>::to_vec)
    }

    /// Bytes of the entry's body, as the header has it.
    pub(super) fn size(&self) -> Option<u64> {
        number(&self.0[124..136])
    }

    /// Returns the kind of the entry; `path` names it in the error.
    pub(super) fn kind(&self, path: &[u8]) -> Result<Kind, ArchiveError> {
        let refused = match self.0[156] {
            // The oldest archives write a directory as a file with a slash at its end.
            0 if path.ends_with(b"/") => return Ok(Kind::Skipped),
            b'0' | 0 => return Ok(Kind::File),
            b'1' => return Ok(Kind::HardLink),
            b'2'..=b'6' => return Ok(Kind::Skipped),
            b'x' => return Ok(Kind::Pax),
            b'g' => return Ok(Kind::PaxGlobal),
            b'L' => return Ok(Kind::LongName),
            b'K' => return Ok(Kind::LongLink),
            b'S' => "a sparse file; make the archive without `--sparse`".to_owned(),
            other => format!("of the unknown kind `{}`", other.escape_ascii()),
        };
        Err(ArchiveError::invalid(format!("{} is {refused}: only regular files can be published", shown(path))))
    }
}

/// A text field: up to its first NUL, after which only NULs may stand.
fn text(field: &[u8]) -> Result<&[u8], ArchiveError> {
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    if field[end..].iter().any(|&b| b != 0) {
        return Err(ArchiveError::invalid(format!("the path {} holds a NUL byte", shown(field))));
    }
    Ok(&field[..end])
}

/// A numeric field: octal digits, or GNU's base 256. None when it is neither, or negative.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        // 0x80 says positive, 0xff negative; what is between is nothing.
        let digits = (field[0] == 0x80).then_some(&field[1..])?;
        return digits.iter().try_fold(0_u64, |n, &b| n.checked_mul(256).map(|n| n | u64::from(b)));
    }
    let digits = field.trim_ascii_start();
    let end = digits.iter().position(|&b| b == 0 || b == b' ').unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    if rest.iter().any(|&b| b != 0 && b != b' ') {
        return None;
    }
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
            (b"17\x0017\0\0\0\0\0\0\0", None),
            (b"0x1f\0\0\0\0\0\0\0\0", None),
        ] {
            assert_eq!(number(field), wanted, "{}", field.escape_ascii());
        }
    }
}
