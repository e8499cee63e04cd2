//! `/tokens`.

use domain::{Timestamp, TokenId, token::TokenKind};
use serde::{Deserialize, Serialize};

/// A token, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Token {
    /// Its id, for revoking it.
    pub id: TokenId,
    /// What it works against.
    pub kind: TokenKind,
    /// What its owner calls it.
    pub label: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked; null while it works.
    pub revoked_at: Option<Timestamp>,
}

/// The creation answer: the record, and the secret this once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedToken {
    /// The record.
    #[serde(flatten)]
    pub record: Token,
    /// The secret: `svc_` and 43 characters.
    pub token: String,
}

/// Your tokens, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenList {
    /// The tokens.
    pub tokens: Vec<Token>,
    /// Where the next page starts; null at the end.
    pub next_cursor: Option<String>,
}

/// Makes a token.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateToken {
    /// `cli` or `ai`.
    #[serde(deserialize_with = "super::word")]
    pub kind: UserTokenKind,
    /// At most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 200, pattern = "^[\\t-\\r ]*[^\\u0000-\\u001f\\u007f-\\u009f]*[\\t-\\r ]*$")
    )]
    pub label: Option<String>,
}

/// The kinds a user may own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum UserTokenKind {
    /// For the control plane.
    Cli,
    /// For the AI gateway.
    Ai,
}

/// A token that an organization owns, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OrgToken {
    /// The record.
    #[serde(flatten)]
    pub record: Token,
    /// The login of who made it; null once that account is gone.
    pub created_by: Option<String>,
}

/// The creation answer: the record, and the secret this once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedOrgToken {
    /// The record.
    #[serde(flatten)]
    pub record: OrgToken,
    /// The secret: `svc_` and 43 characters.
    pub token: String,
}

/// An organization's working tokens, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OrgTokenList {
    /// The tokens.
    pub tokens: Vec<OrgToken>,
    /// Where the next page starts; null at the end.
    pub next_cursor: Option<String>,
}

/// Makes a token that the organization owns.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateOrgToken {
    /// `ai` or `deploy`.
    #[serde(deserialize_with = "super::word")]
    pub kind: OrgTokenKind,
    /// At most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 200, pattern = "^[\\t-\\r ]*[^\\u0000-\\u001f\\u007f-\\u009f]*[\\t-\\r ]*$")
    )]
    pub label: Option<String>,
}

/// The kinds an organization may own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum OrgTokenKind {
    /// For the AI gateway.
    Ai,
    /// For deploying the organization's projects.
    Deploy,
}
