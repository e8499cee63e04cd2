//! Invalidation: what admin tells the edges, and what the edges answer.
//!
//! A change is a row of `route_changes`, written in the transaction that makes it true. After commit admin publishes
//! it on [`CHANGES_CHANNEL`]; every edge applies it, then says on [`ACKS_CHANNEL`] which `seq` it has reached.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};
use sqlx::{
    Postgres,
    postgres::{PgTypeInfo, PgValueRef},
};

use crate::domain::{InvalidId, OrgId, ProjectId, TokenId, UserId};

/// Redis channel on which admin publishes [`RouteChange`]s, as JSON.
pub const CHANGES_CHANNEL: &str = "svc:route-changes";
/// Redis channel on which edges publish [`EdgeHeartbeat`]s, as JSON: at every applied change and every
/// [`HEARTBEAT_EVERY`].
pub const ACKS_CHANNEL: &str = "svc:edge-acks";
/// How often an edge says that it lives.
pub const HEARTBEAT_EVERY: std::time::Duration = std::time::Duration::from_millis(250);
/// Silence after which admin no longer waits for an edge, though it still counts it.
pub const PRESUMED_DEAD_AFTER: std::time::Duration = std::time::Duration::from_millis(1_250);
/// Silence after which an edge is no longer counted at all.
pub const FORGOTTEN_AFTER: std::time::Duration = std::time::Duration::from_secs(10);

/// One committed change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteChange {
    /// Its place in the order of commits, without gaps.
    pub seq: i64,
    /// What it is that changed: everything remembered of it is to be forgotten.
    pub subject: Subject,
    /// Hosts ([`super::HostKey::label`]) that began or ceased to exist: also forget that they were unknown.
    pub hosts: Vec<String>,
}

/// What edges remember things of. Written as its id, whose prefix tells the kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum Subject {
    /// What a project serves, and to whom.
    Project(ProjectId),
    /// Who belongs to an org.
    Org(OrgId),
    /// Whether a token of the gateway works, and for whom.
    Token(TokenId),
    /// Whether a person's visits to gated sites go on.
    User(UserId),
}

impl Subject {
    /// The id.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Project(id) => id.as_str(),
            Self::Org(id) => id.as_str(),
            Self::Token(id) => id.as_str(),
            Self::User(id) => id.as_str(),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Subject {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        (text.parse().map(Self::Project))
            .or_else(|_| text.parse().map(Self::Org))
            .or_else(|_| text.parse().map(Self::Token))
            .or_else(|_| text.parse().map(Self::User))
    }
}

impl sqlx::Type<Postgres> for Subject {
    fn type_info() -> PgTypeInfo {
        <&str as sqlx::Type<Postgres>>::type_info()
    }

    fn compatible(ty: &PgTypeInfo) -> bool {
        <&str as sqlx::Type<Postgres>>::compatible(ty)
    }
}

impl<'r> sqlx::Decode<'r, Postgres> for Subject {
    fn decode(value: PgValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
        Ok(<&str as sqlx::Decode<'r, Postgres>>::decode(value)?.parse()?)
    }
}

impl<'de> Deserialize<'de> for Subject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl From<&ProjectId> for Subject {
    fn from(id: &ProjectId) -> Self {
        Self::Project(id.clone())
    }
}

impl From<&OrgId> for Subject {
    fn from(id: &OrgId) -> Self {
        Self::Org(id.clone())
    }
}

impl From<&TokenId> for Subject {
    fn from(id: &TokenId) -> Self {
        Self::Token(id.clone())
    }
}

impl From<&UserId> for Subject {
    fn from(id: &UserId) -> Self {
        Self::User(id.clone())
    }
}

/// An edge lives, and has applied everything up to `seq`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeHeartbeat {
    /// The edge process: made up at its start.
    pub edge: String,
    /// The last change it has applied.
    pub seq: i64,
    /// It stops now; do not wait for it any more.
    #[serde(default)]
    pub leaving: bool,
}
