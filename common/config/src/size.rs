//! Amounts of memory, as people write them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The units of a size with their bytes: those that sizes are displayed in, and their other names.
const UNITS: [(&str, u64); 8] = [
    ("", 1),
    ("b", 1),
    ("kb", 1 << 10),
    ("mb", 1 << 20),
    ("gb", 1 << 30),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
];

/// A number of bytes: `536870912`, or `"512 MB"`, with `B`, `KB`, `MB` or `GB`, which are powers of 1,024. `KiB`, `MiB`
/// and `GiB` are accepted too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// The text is not a size.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a size: write a number of bytes, or `512 MB`")]
pub struct ByteSizeError(String);

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, ByteSizeError> {
        let text = text.trim();
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let unit = unit.trim().to_ascii_lowercase();
        let unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes);
        let bytes = number.parse::<u64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
        bytes.map(Self).ok_or_else(|| ByteSizeError(text.to_owned()))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(bytes) => Ok(Self(bytes)),
            Written::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_or_numbers_with_a_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("536870912", 536_870_912),
            ("512 MB", 512 << 20),
            ("512 MiB", 512 << 20),
            ("512mib", 512 << 20),
            (" 2 GB ", 2 << 30),
            ("7 B", 7),
        ] {
            assert_eq!(text.parse::<ByteSize>().unwrap(), ByteSize(bytes), "{text:?}");
        }
        for text in ["", "MiB", "-1", "1.5 GiB", "1 TiBs", "1 M", "99999999999 GiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn both_are_read_from_a_file() {
        let read = |json: &str| serde_json::from_str::<ByteSize>(json);
        assert_eq!(read("1024").unwrap(), read("\"1 KiB\"").unwrap());
        assert!(read("\"much\"").is_err() && read("-1").is_err() && read("true").is_err());
    }
}
