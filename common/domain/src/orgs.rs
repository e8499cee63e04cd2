//! Display names and icons of organizations.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};

use super::{
    limits,
    line::{self, LineError},
};

/// An organization's display name: one line of text, without surrounding white space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(
    value_type = String, max_length = 100,
    format = "single-line"
))]
pub struct DisplayName(String);

/// The reason a display name was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DisplayNameError {
    /// The name is empty or too long.
    #[error("display_name must be 1 to 100 characters")]
    Length,
    /// The name has invisible characters that change the appearance of the text around them.
    #[error("display_name must be one line of text without control characters and invisible ones")]
    Control,
}

impl DisplayName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses a display name, or returns `None` for nothing but white space.
    pub fn parse_or_blank(text: &str) -> Result<Option<Self>, DisplayNameError> {
        if text.trim().is_empty() { Ok(None) } else { text.parse().map(Some) }
    }
}

impl FromStr for DisplayName {
    type Err = DisplayNameError;
    fn from_str(text: &str) -> Result<Self, DisplayNameError> {
        match line::validate(text, limits::DISPLAY_NAME_CHARS) {
            Ok("") | Err(LineError::Length) => Err(DisplayNameError::Length),
            Err(LineError::Hidden) => Err(DisplayNameError::Control),
            Ok(name) => Ok(Self(name.to_owned())),
        }
    }
}

impl fmt::Display for DisplayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for DisplayName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The format of an icon. SVG is excluded because it can hold scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "lowercase"))]
pub enum IconFormat {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// WebP.
    Webp,
    /// GIF.
    Gif,
}

impl IconFormat {
    /// Returns the `Content-Type` for an icon of this format.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
            Self::Gif => "image/gif",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_are_one_visible_line() {
        assert_eq!("  Acme & Söhne ".parse::<DisplayName>().unwrap().as_str(), "Acme & Söhne");
        assert!("é".repeat(100).parse::<DisplayName>().is_ok());
        for (bad, why) in [
            (String::new(), DisplayNameError::Length),
            ("  ".to_owned(), DisplayNameError::Length),
            ("é".repeat(101), DisplayNameError::Length),
            ("a\r\nBcc: x".to_owned(), DisplayNameError::Control),
            ("a\0b".to_owned(), DisplayNameError::Control),
            ("a\u{2028}b".to_owned(), DisplayNameError::Control),
            ("a\u{202e}b".to_owned(), DisplayNameError::Control),
            ("a\u{200b}b".to_owned(), DisplayNameError::Control),
            ("\u{feff}".to_owned(), DisplayNameError::Control),
        ] {
            assert_eq!(bad.parse::<DisplayName>(), Err(why), "{bad:?}");
        }
        assert_eq!(DisplayName::parse_or_blank(" \t"), Ok(None));
    }
}
