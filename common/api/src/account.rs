//! `GET /me` and `GET /health`.

use domain::{OrgName, Timestamp, TokenId, token::TokenKind};
use serde::{Deserialize, Serialize};

/// The account that a token acts for: a person or an organization.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Account {
    /// The user's id, or the organization's id for a token that an organization owns.
    pub id: String,
    /// The account's id at the code host; null for a token that an organization owns.
    pub vcs_id: Option<String>,
    /// The account's login at the code host; null for a token that an organization owns.
    pub vcs_login: Option<String>,
    /// The email address from the code host; null if it gave none.
    pub email: Option<String>,
    /// The kind of the token used for this request.
    pub token_kind: TokenKind,
    /// The id of the token used for this request; absent in a session of the console.
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
    /// Whether Postgres answers; absent when everything is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<bool>,
    /// Whether Redis answers; absent when everything is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redis: Option<bool>,
    /// Whether this server is shutting down; absent unless it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining: Option<bool>,
}
