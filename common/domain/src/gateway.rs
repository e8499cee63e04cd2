//! Size limits of AI gateway requests (body and requested output), and model aliases.
//!
//! The defaults are the contract's numbers. A plan sets the limits of its accounts, a key may lower them, and a model
//! never writes more than it can.

mod aliases;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};

pub use self::aliases::{ModelAlias, ModelAliases, ModelAliasesError};
use super::limits::{KB, MB};

/// Defines a whole number of bytes or tokens within bounds.
macro_rules! bounded {
    ($(#[$doc:meta])* $name:ident, $error:ident, $range:expr, $default:expr, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(into = "i64")]
        #[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
        pub struct $name(i32);

        #[doc = concat!("The error for a number that is no ", stringify!($name), ".")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
        #[error("{} from {} to {}", $what, $name::LEAST, $name::MOST)]
        pub struct $error;

        impl $name {
            /// The smallest value.
            pub const LEAST: i32 = *$range.start();
            /// The largest value.
            pub const MOST: i32 = *$range.end();
            /// The contract's value.
            pub const DEFAULT: Self = Self($default);

            /// Returns the number.
            pub fn get(self) -> u64 {
                self.0.unsigned_abs().into()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::DEFAULT
            }
        }

        impl TryFrom<i64> for $name {
            type Error = $error;
            fn try_from(number: i64) -> Result<Self, $error> {
                let number = i32::try_from(number).map_err(|_| $error)?;
                if (Self::LEAST..=Self::MOST).contains(&number) { Ok(Self(number)) } else { Err($error) }
            }
        }

        impl From<$name> for i64 {
            fn from(number: $name) -> Self {
                number.0.into()
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;

                impl de::Visitor<'_> for Visitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        fmt::Display::fmt(&$error, f)
                    }

                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<$name, E> {
                        number.try_into().map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
                    }

                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<$name, E> {
                        let known = i64::try_from(number).ok().and_then(|number| number.try_into().ok());
                        known.ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
                    }
                }

                deserializer.deserialize_i64(Visitor)
            }
        }
    };
}

bounded! {
    /// The maximum size of a request body, in bytes.
    BodyLimit, BodyLimitError, (1_024..=33_554_432), 65_536, "a whole number of bytes"
}

bounded! {
    /// The maximum number of tokens in one choice of a completion.
    TokenLimit, TokenLimitError, (1..=1_000_000), 4_096, "a whole number of tokens"
}

impl BodyLimit {
    /// Enough for a coding agent's long conversation, or for a few images.
    pub const EIGHT_MB: Self = Self(8_388_608);
    /// The largest value.
    pub const LARGEST: Self = Self(Self::MOST);
}

impl TokenLimit {
    /// The output that coding agents usually request.
    pub const LONG: Self = Self(32_768);
    /// The output limit of most of the models shipped.
    pub const LONGEST: Self = Self(131_072);
}

/// Parses a number of bytes, or of kilobytes or megabytes, such as `8 MB`.
impl FromStr for BodyLimit {
    type Err = BodyLimitError;
    fn from_str(text: &str) -> Result<Self, BodyLimitError> {
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit: u64 = match unit.trim().to_ascii_uppercase().as_str() {
            "" | "B" => 1,
            "KB" | "KIB" => KB,
            "MB" | "MIB" => MB,
            _ => return Err(BodyLimitError),
        };
        let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or(BodyLimitError)?;
        i64::try_from(bytes).map_err(|_| BodyLimitError)?.try_into()
    }
}

impl FromStr for TokenLimit {
    type Err = TokenLimitError;
    fn from_str(text: &str) -> Result<Self, TokenLimitError> {
        text.parse::<u32>().map(i64::from).map_err(|_| TokenLimitError)?.try_into()
    }
}

/// Limits of a key, which can only lower those of its plan. `None` means the plan's limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyLimits {
    /// The maximum size of a request body.
    pub body_bytes: Option<BodyLimit>,
    /// The maximum number of tokens in one choice.
    pub max_tokens: Option<TokenLimit>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_contracts() {
        assert_eq!((BodyLimit::DEFAULT.get(), TokenLimit::DEFAULT.get()), (65_536, 4_096));
        assert_eq!((BodyLimit::MOST, BodyLimit::LEAST), (32 * 1024 * 1024, 1024));
    }

    #[test]
    fn numbers_are_read_within_their_bounds() {
        for (text, bytes) in [("1024", 1_024), ("64 KB", 65_536), ("8mb", 8 << 20), ("32 MiB", 32 << 20)] {
            assert_eq!(text.parse::<BodyLimit>().map(BodyLimit::get), Ok(bytes), "{text}");
        }
        for text in ["", "KB", "1023", "33 MB", "-1", "1.5 MB", "8 GB", "99999999999999999999 MB"] {
            assert_eq!(text.parse::<BodyLimit>(), Err(BodyLimitError), "{text}");
        }
        assert_eq!("1000000".parse::<TokenLimit>().map(TokenLimit::get), Ok(1_000_000));
        for text in ["0", "1000001", "x", ""] {
            assert_eq!(text.parse::<TokenLimit>(), Err(TokenLimitError), "{text}");
        }
        assert_eq!(serde_json::from_str::<TokenLimit>("8192").unwrap().get(), 8_192);
        for wrong in ["0", "-1", "1.5", "\"5\"", "9999999999", "99999999999999999999"] {
            let error = serde_json::from_str::<TokenLimit>(wrong).unwrap_err().to_string();
            assert!(error.contains("a whole number of tokens from 1 to 1000000"), "{error}");
        }
        assert_eq!(serde_json::to_string(&BodyLimit::DEFAULT).unwrap(), "65536");
    }
}
