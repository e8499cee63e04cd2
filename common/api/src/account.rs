//! `GET /me` and `GET /health`.

use domain::{OrgName, Timestamp, token::TokenKind};
use serde::{Deserialize, Serialize};

/// Who the token speaks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Account {
    /// The user's id, or the org's for an org-owned token.
    pub id: String,
    /// The code host's id of the account; null for an org-owned token.
    pub vcs_id: Option<String>,
    /// The code host's login; null for an org-owned token.
    pub vcs_login: Option<String>,
    /// The email address the code host gave; null when it gave none.
    pub email: Option<String>,
    /// The kind of the token that asked.
    pub token_kind: TokenKind,
    /// The owning org's name for org-owned tokens.
    pub org: Option<OrgName>,
    /// When the account was made.
    pub created_at: Timestamp,
}

/// The platform's own health.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// Whether Postgres and Redis answer.
    pub ok: bool,
    /// When not all is well: whether Postgres answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<bool>,
    /// When not all is well: whether Redis answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redis: Option<bool>,
}
