//! Who uses the service and pays for it: a person or an organization, each a billing scope of its own.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};

use super::{InvalidId, OrgId, UserId};

/// A billing scope. Written as its id, whose prefix tells the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(untagged)]
pub enum Account {
    /// A person.
    User(UserId),
    /// An organization.
    Org(OrgId),
}

impl Account {
    /// The id.
    pub fn as_str(&self) -> &str {
        match self {
            Self::User(id) => id.as_str(),
            Self::Org(id) => id.as_str(),
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Account {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
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
