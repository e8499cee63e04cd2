//! `/shares`.

use domain::{ProjectName, ShareName, Timestamp};
use serde::{Deserialize, Serialize};

/// A live share.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Share {
    /// Its three words.
    pub name: ShareName,
    /// Where it is served.
    pub url: String,
    /// The `tmp-…` project behind it.
    pub project: ProjectName,
    /// When it goes away.
    pub expires_at: Timestamp,
    /// When it was made.
    pub created_at: Timestamp,
    /// Regular files in it.
    pub files: u32,
    /// Their size together, extracted.
    pub bytes: u64,
    /// Whether it asks for a password.
    pub protected: bool,
}

/// Your live shares, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShareList {
    /// The shares.
    pub shares: Vec<Share>,
    /// Where the next page starts; null at the end.
    pub next_cursor: Option<String>,
}
