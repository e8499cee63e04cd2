//! `GET /me` and `GET /health`.

use domain::{OrgName, Timestamp, TokenId, token::TokenKind};
use serde::{Deserialize, Serialize};

/// The account that a token speaks for: a person, or an organization.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Account {
    /// The user's id; the organization's id for a token that an organization owns.
    pub id: String,
    /// The account's id at the code host; null for a token that an organization owns.
    pub vcs_id: Option<String>,
    /// The account's login at the code host; null for a token that an organization owns.
    pub vcs_login: Option<String>,
    /// The email address that the code host gave; null when it gave none.
    pub email: Option<String>,
    /// The kind of the token that asked.
    pub token_kind: TokenKind,
    /// The id of the token that asked; absent in a session of the console.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_id: Option<TokenId>,
    /// The name of the organization that owns the token; null for a person's token.
    pub org: Option<OrgName>,
    /// The time at which the account was created.
    pub created_at: Timestamp,
}

/// The health of the platform.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// Whether Postgres and Redis answer.
    pub ok: bool,
    /// Whether Postgres answers; absent while everything does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<bool>,
    /// Whether Redis answers; absent while everything does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redis: Option<bool>,
    /// Whether this server is about to stop; absent unless it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining: Option<bool>,
}
