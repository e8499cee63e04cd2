//! Accounts: the people and organizations that own projects, act on them and pay for usage.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};

use super::{IdError, OrgId, UserId};

/// A person or an organization, as owner, actor and billing scope. Serialized as its id, whose prefix gives the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(untagged)]
pub enum Account {
    /// A person.
    User(UserId),
    /// An organization.
    Org(OrgId),
}

impl Account {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::User(id) => id.as_str(),
            Self::Org(id) => id.as_str(),
        }
    }

    /// Returns the user's id if the account is a person.
    pub fn as_user(&self) -> Option<&UserId> {
        match self {
            Self::User(id) => Some(id),
            Self::Org(_) => None,
        }
    }

    /// Returns the org's id if the account is an organization.
    pub fn as_org(&self) -> Option<&OrgId> {
        match self {
            Self::User(_) => None,
            Self::Org(id) => Some(id),
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(feature = "sqlx")]
crate::column::text!(Account);

impl FromStr for Account {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        text.parse().map(Self::User).or_else(|_| text.parse().map(Self::Org))
    }
}

impl<'de> Deserialize<'de> for Account {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl From<UserId> for Account {
    fn from(id: UserId) -> Self {
        Self::User(id)
    }
}

impl From<OrgId> for Account {
    fn from(id: OrgId) -> Self {
        Self::Org(id)
    }
}
