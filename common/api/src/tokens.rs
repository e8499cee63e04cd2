//! `/tokens`.

use domain::{
    Patch, Timestamp, TokenId,
    gateway::{BodyLimit, TokenLimit},
    token::TokenKind,
    usage::MonthlyLimit,
};
use serde::{Deserialize, Serialize};

/// A token, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Token {
    /// The token's id, needed to revoke it.
    pub id: TokenId,
    /// The kind, which decides what the token gives access to.
    pub kind: TokenKind,
    /// The owner's name for the token.
    pub label: Option<String>,
    /// The time at which the token was created.
    pub created_at: Timestamp,
    /// The time at which the token was revoked; null if it is valid.
    pub revoked_at: Option<Timestamp>,
    /// The maximum cost of an `ai` token per UTC month, in euro cents; null if only the plan limits it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, maximum = 100_000_000))]
    pub monthly_limit_cents: Option<MonthlyLimit>,
    /// The token's cost in this UTC month, in euro cents, rounded up.
    pub month_cents: u64,
    /// The token's exact cost in this UTC month, in millionths of a euro cent. Absent in the previous version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub month_microcents: Option<u64>,
    /// The maximum body size of a request with an `ai` token, in bytes; absent if only the plan limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = u32, minimum = 1024, maximum = 33_554_432))]
    pub gateway_body_bytes: Option<BodyLimit>,
    /// The maximum `max_tokens` of a request with an `ai` token; absent if only the plan and the model limit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = u32, minimum = 1, maximum = 1_000_000))]
    pub gateway_max_tokens: Option<TokenLimit>,
}

/// The request to change the limits of a token of kind `ai`: at least one. Absent fields keep their value.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeToken {
    /// The maximum cost of the token per UTC month, in euro cents; null removes the limit.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, maximum = 100_000_000))]
    pub monthly_limit_cents: Patch<MonthlyLimit>,
    /// The maximum body size of a request, in bytes, if lower than the plan allows; null removes the limit.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, minimum = 1024, maximum = 33_554_432))]
    pub gateway_body_bytes: Patch<BodyLimit>,
    /// The maximum `max_tokens` of a request, if lower than the plan allows; null removes the limit.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000))]
    pub gateway_max_tokens: Patch<TokenLimit>,
}

/// A new token with its secret, which is shown only here.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedToken {
    /// The token without its secret.
    #[serde(flatten)]
    pub record: Token,
    /// The secret: `svc_` followed by 43 characters.
    pub token: String,
}

/// A page of the caller's tokens, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenList {
    /// The tokens of this page.
    pub tokens: Vec<Token>,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// Defines the request to create a token for people and for organizations, which may own different kinds.
macro_rules! create_token {
    ($(#[$doc:meta])* $name:ident, $(#[$kind_doc:meta])* $kind:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub struct $name {
            $(#[$kind_doc])*
            #[serde(deserialize_with = "super::word")]
            pub kind: $kind,
            /// A name for the token: one line of at most 200 characters, without control or invisible characters.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "openapi", schema(max_length = 200, format = "single-line"))]
            pub label: Option<String>,
            /// The maximum cost of the token per UTC month, in euro cents; for kind `ai` only.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, maximum = 100_000_000))]
            pub monthly_limit_cents: Option<MonthlyLimit>,
            /// The maximum body size of a request, in bytes, if lower than the plan allows; for kind `ai` only.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, minimum = 1024, maximum = 33_554_432))]
            pub gateway_body_bytes: Option<BodyLimit>,
            /// The maximum `max_tokens` of a request, if lower than the plan allows; for kind `ai` only.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000))]
            pub gateway_max_tokens: Option<TokenLimit>,
        }
    };
}

create_token! {
    /// The request to create a token that you own.
    CreateToken,
    /// The kind: `cli` or `ai`.
    UserTokenKind
}

/// The kinds of tokens that a person may own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum UserTokenKind {
    /// A token for the control plane.
    Cli,
    /// A token for the AI gateway.
    Ai,
}

/// A token that an organization owns, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OrgToken {
    /// The token without its secret.
    #[serde(flatten)]
    pub record: Token,
    /// The login of the person who created the token; null if that account was deleted.
    pub created_by: Option<String>,
}

/// A new token with its secret, which is shown only here.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedOrgToken {
    /// The token without its secret.
    #[serde(flatten)]
    pub record: OrgToken,
    /// The secret: `svc_` followed by 43 characters.
    pub token: String,
}

/// A page of an organization's active tokens, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OrgTokenList {
    /// The tokens of this page.
    pub tokens: Vec<OrgToken>,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

create_token! {
    /// The request to create a token that an organization owns.
    CreateOrgToken,
    /// The kind: `ai` or `deploy`.
    OrgTokenKind
}

/// The kinds of tokens that an organization may own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum OrgTokenKind {
    /// A token for the AI gateway.
    Ai,
    /// A token that deploys the organization's projects.
    Deploy,
}
