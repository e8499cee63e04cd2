//! Environment variables: their keys, values and scopes.

use std::{fmt, str::FromStr};

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::limits::{ENV_KEY_CHARS, ENV_VALUE_CHARS};

/// The reason a variable was rejected. The text is shown to its author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    /// The key is not a valid shell variable name.
    #[error("key must be 1 to 128 letters, digits and underscores, and not begin with a digit")]
    Key,
    /// The value is too long.
    #[error("value must be at most 32768 characters")]
    Length,
    /// The value contains a NUL character, which no environment can hold.
    #[error("value must not contain a NUL character")]
    Nul,
}

/// A POSIX variable name: letters, digits and underscores, not starting with a digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String, min_length = 1, max_length = 128, pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
pub struct EnvKey(String);

impl EnvKey {
    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EnvKey {
    type Err = EnvError;
    fn from_str(text: &str) -> Result<Self, EnvError> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let starts_well = text.bytes().next().is_some_and(|first| !first.is_ascii_digit());
        if starts_well && text.len() <= ENV_KEY_CHARS && text.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(EnvError::Key)
        }
    }
}

impl fmt::Display for EnvKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for EnvKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A variable's value in the clear. Never printed; serialized for authorized readers.
#[derive(Clone)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String, max_length = 32768, pattern = "^[^\\u0000]*$"))]
pub struct EnvValue(SecretString);

impl EnvValue {
    /// Returns the value in the clear.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl TryFrom<String> for EnvValue {
    type Error = EnvError;
    fn try_from(text: String) -> Result<Self, EnvError> {
        if text.contains('\0') {
            return Err(EnvError::Nul);
        }
        if text.chars().count() > ENV_VALUE_CHARS {
            return Err(EnvError::Length);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Debug for EnvValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvValue(…)")
    }
}

impl Serialize for EnvValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose())
    }
}

impl<'de> Deserialize<'de> for EnvValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}

/// The scope in which a variable is visible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "lowercase"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EnvScope {
    /// Visible at runtime.
    #[default]
    Runtime,
    /// Visible to builds.
    Build,
    /// Visible at runtime and to builds.
    Both,
}

impl EnvScope {
    /// Returns the wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Build => "build",
            Self::Both => "both",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_a_shell_can_name() {
        for good in ["A", "_", "a1", "DATABASE_URL", "_0", &"X".repeat(128)] {
            assert!(good.parse::<EnvKey>().is_ok(), "{good}");
        }
        for bad in ["", "1A", "A-B", "A B", "A.B", "Ä", "A=B", "A\n", "A\0", &"X".repeat(129)] {
            assert_eq!(bad.parse::<EnvKey>(), Err(EnvError::Key), "{bad:?}");
        }
    }

    #[test]
    fn values_are_bounded_and_never_printed() {
        let value = EnvValue::try_from("hunter2".to_owned()).unwrap();
        assert_eq!(format!("{value:?}"), "EnvValue(…)");
        assert_eq!(serde_json::to_string(&value).unwrap(), "\"hunter2\"");
        assert!(EnvValue::try_from(String::new()).is_ok());
        assert!(EnvValue::try_from("é".repeat(ENV_VALUE_CHARS)).is_ok());
        assert_eq!(EnvValue::try_from("x".repeat(ENV_VALUE_CHARS + 1)).unwrap_err(), EnvError::Length);
        assert_eq!(EnvValue::try_from("a\0b".to_owned()).unwrap_err(), EnvError::Nul);
    }
}
