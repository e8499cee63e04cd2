//! `/shares`.

use domain::{ProjectName, ShareName, Timestamp};
use serde::{Deserialize, Serialize};

/// A live share.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Share {
    /// The share's name: three words.
    pub name: ShareName,
    /// The address at which the share is served.
    pub url: String,
    /// The name of the `tmp-…` project behind the share.
    pub project: ProjectName,
    /// The time at which the share expires.
    pub expires_at: Timestamp,
    /// The time at which the share was created.
    pub created_at: Timestamp,
    /// The number of regular files.
    pub files: u32,
    /// The extracted size of all files, in bytes.
    pub bytes: u64,
    /// Whether visitors need a password.
    pub protected: bool,
}

/// A page of the caller's live shares, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShareList {
    /// The shares of this page.
    pub shares: Vec<Share>,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}
