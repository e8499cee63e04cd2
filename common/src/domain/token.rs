//! API tokens: their kinds and the form of their secrets.

use serde::{Deserialize, Serialize};

/// What a token works against. Kinds are not interchangeable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, sqlx::Type, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[sqlx(type_name = "text", rename_all = "lowercase")]
pub enum TokenKind {
    /// A user's, for the control plane.
    Cli,
    /// A user's or an org's, for the AI gateway only.
    Ai,
    /// An org's, for five operations of the control plane.
    Deploy,
}

impl TokenKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Ai => "ai",
            Self::Deploy => "deploy",
        }
    }
}
