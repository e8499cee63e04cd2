//! PAX extended headers: records of the form `length key=value\n`.
//!
//! The `tar` crate's parser ends a record at its first newline, whatever its length, and its callers use the first
//! value of a key, so it would read names with newlines and repeated keys differently from other programs.

use super::{ArchiveError, path::shown};

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PaxRecords {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
}

impl PaxRecords {
    /// Merges another header for the same entry. Returns whether they agree: programs differ in which one they follow.
    pub(super) fn merge(&mut self, other: Self) -> bool {
        let path = set_once(&mut self.path, other.path);
        let link = set_once(&mut self.link, other.link);
        let size = set_once(&mut self.size, other.size);
        path && link && size
    }

    /// Parses all records; the last value of a key wins, as POSIX says.
    pub(super) fn parse(mut text: &[u8]) -> Result<Self, ArchiveError> {
        let mut records = Self::default();
        while !text.is_empty() {
            let (key, value, rest) = record(text).ok_or_else(|| ArchiveError::invalid("a PAX header is malformed"))?;
            text = rest;
            match key {
                b"path" => records.path = Some(value.to_vec()),
                b"linkpath" => records.link = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().filter(|size| size.bytes().all(|b| b.is_ascii_digit()));
                    let size = size.and_then(|size| size.parse().ok());
                    records.size = Some(size.ok_or_else(|| {
                        ArchiveError::invalid(format!("a PAX header gives the impossible size {}", shown(value)))
                    })?);
                }
                key if key.starts_with(b"GNU.sparse.") => {
                    return Err(ArchiveError::invalid(
                        "the archive holds a sparse file: only regular files can be published; \
                         make it without `--sparse`, or with bsdtar by `--no-read-sparse`",
                    ));
                }
                _ => {}
            }
        }
        Ok(records)
    }
}

/// Sets an announced value. Returns `false` if a different one was already set.
pub(super) fn set_once<T: PartialEq>(known: &mut Option<T>, new: Option<T>) -> bool {
    let agree = new.is_none() || known.is_none() || *known == new;
    if new.is_some() {
        *known = new;
    }
    agree
}

/// Splits off the first record of `text`: key, value, and the rest.
fn record(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = text.iter().take(20).position(|&b| b == b' ')?;
    let digits =
        std::str::from_utf8(&text[..space]).ok().filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
    let (record, rest) = text.split_at_checked(digits.parse().ok()?)?;
    let pair = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = pair.iter().position(|&b| b == b'=')?;
    Some((&pair[..equals], &pair[equals + 1..], rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records() {
        let parsed = PaxRecords::parse(b"30 mtime=1700000000.123456789\n10 path=a\n10 path=b\n11 size=42\n");
        assert_eq!(parsed, Ok(PaxRecords { path: Some(b"b".to_vec()), link: None, size: Some(42) }));
        assert_eq!(
            PaxRecords::parse(b"12 path=a\nb\n"),
            Ok(PaxRecords { path: Some(b"a\nb".to_vec()), ..PaxRecords::default() })
        );
        for malformed in [
            &b"x"[..],
            b"10 path=a",
            b"11 path=a\n",
            b"8 path=a\n",
            b"0 \n",
            b"3 \n",
            b"-1 path=a\n",
            b"+10 path=a\n",
            b"99999999999999999999999 path=a\n",
            b"18446744073709551615 path=a\n",
            b"8 patha\n",
            b"11 size=-1\n",
            b"10 size=\n\n",
            b"29 size=99999999999999999999\n",
            b"27 GNU.sparse.name=somename\n",
        ] {
            assert!(PaxRecords::parse(malformed).is_err(), "{}", malformed.escape_ascii());
        }
    }
}
