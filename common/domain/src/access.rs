//! Access modes and passwords of sites.

use serde::{Deserialize, Serialize};

use super::limits;

/// A project's access mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "lowercase"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum AccessMode {
    /// Every visitor may see the site.
    Public,
    /// Visitors who know the password may see the site.
    Password,
    /// Members of the owning organization may see the site.
    Org,
}

impl AccessMode {
    /// Returns the wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Password => "password",
            Self::Org => "org",
        }
    }
}

/// A site's password in the clear, of allowed length. Never printed.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, min_length = 4, max_length = 128, pattern = "^[^\\x00]*$"))]
pub struct SitePassword(secrecy::SecretString);

/// The password is too short, too long, or contains a NUL, which no browser can send back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("password must be 4 to 128 characters")]
pub struct PasswordError;

impl SitePassword {
    /// Returns the password in the clear.
    pub fn expose(&self) -> &str {
        secrecy::ExposeSecret::expose_secret(&self.0)
    }
}

impl TryFrom<String> for SitePassword {
    type Error = PasswordError;
    fn try_from(text: String) -> Result<Self, PasswordError> {
        if limits::PASSWORD_CHARS.contains(&text.chars().count()) && !text.contains('\0') {
            Ok(Self(text.into()))
        } else {
            Err(PasswordError)
        }
    }
}

impl std::fmt::Debug for SitePassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SitePassword(…)")
    }
}
