//! Names chosen by people (projects, organizations) or generated (shares). A project's name is its subdomain.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};

use super::ids;

/// Names that cannot be taken: they are, or may become, hosts of the platform itself.
pub const RESERVED: [&str; 9] = ["www", "api", "ai", "app", "admin", "dashboard", "status", "docs", "mail"];
/// Names that new projects and organizations cannot take, because such a host would look like the platform's own:
/// mailboxes (RFC 2142), and hosts that people and programs look for.
const WELL_KNOWN: [&str; 25] = [
    "abuse",
    "account",
    "autoconfig",
    "autodiscover",
    "billing",
    "console",
    "default",
    "ftp",
    "hostmaster",
    "info",
    "isatap",
    "localhost",
    "login",
    "marketing",
    "mta-sts",
    "news",
    "noc",
    "postmaster",
    "sales",
    "security",
    "support",
    "usenet",
    "uucp",
    "webmaster",
    "wpad",
];
/// Prefix of the names of projects behind shares; other projects may not have it.
pub const EPHEMERAL_PREFIX: &str = "tmp-";

const MIN: usize = 3;
const MAX: usize = 40;

/// The reason a name was rejected. The text is shown to its author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is too short or too long, or has a character outside a-z, 0-9 and `-`.
    #[error("name must be 3 to 40 characters of a-z, 0-9 and -")]
    Form,
    /// The name begins or ends with a hyphen, which a hostname label may not.
    #[error("name must not begin or end with a hyphen, because it becomes a hostname")]
    Hyphen,
    /// The name begins like `xn--…` or `<20 characters>--…`, which have another meaning in a hostname.
    #[error("name looks like an internationalized name or a deployment's address; choose one without --")]
    Lookalike,
    /// The name is one of [`RESERVED`], or is rejected by [`is_reserved`].
    #[error("name is reserved for the platform; choose another")]
    Reserved,
    /// The name begins with [`EPHEMERAL_PREFIX`].
    #[error("name must not begin with tmp-, which marks temporary shares")]
    Ephemeral,
}

fn check_form(name: &str) -> Result<(), NameError> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !(MIN..=MAX).contains(&name.len()) || !name.bytes().all(allowed) {
        return Err(NameError::Form);
    }
    if name.starts_with('-') || name.ends_with('-') {
        return Err(NameError::Hyphen);
    }
    let is_deployment_address = name.split_once("--").is_some_and(|(head, _)| ids::is_body(head));
    if name.starts_with("xn--") || is_deployment_address {
        return Err(NameError::Lookalike);
    }
    Ok(())
}

fn check_chosen(name: &str) -> Result<(), NameError> {
    check_form(name)?;
    if RESERVED.contains(&name) {
        return Err(NameError::Reserved);
    }
    if name.starts_with(EPHEMERAL_PREFIX) {
        return Err(NameError::Ephemeral);
    }
    Ok(())
}

/// Returns whether new projects and organizations cannot take a name, independent of how the platform's hosts are
/// called. For those see [`PlatformAddresses::reserves`](super::PlatformAddresses::reserves).
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || WELL_KNOWN.contains(&name)
}

fn check_new(name: &str) -> Result<(), NameError> {
    check_chosen(name)?;
    if is_reserved(name) { Err(NameError::Reserved) } else { Ok(()) }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        #[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String, min_length = 3, max_length = 40, pattern = "^[a-z0-9][a-z0-9-]*[a-z0-9]$"))]
        pub struct $name(String);

        impl $name {
            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                $check(text)?;
                Ok(Self(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

name!(
    /// The name of an existing project, including a share's `tmp-…` project. To create one, use [`NewProjectName`].
    ProjectName, check_form
);
name!(
    /// The name of a new project: not reserved, not `tmp-…`.
    NewProjectName, check_new
);
name!(
    /// An organization's name; the same rules as a new project's.
    // `is_reserved` is checked at creation only, so that earlier names stay reachable.
    OrgName, check_chosen
);

impl From<NewProjectName> for ProjectName {
    fn from(name: NewProjectName) -> Self {
        Self(name.0)
    }
}

impl ProjectName {
    /// Creates a name for the project behind a share: `tmp-` and 10 random characters.
    pub fn ephemeral() -> Self {
        use rand::RngExt as _;
        let mut rng = rand::rng();
        let tail = (0..10).map(|_| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[rng.random_range(0..36)]));
        Self(EPHEMERAL_PREFIX.chars().chain(tail).collect())
    }

    /// Returns whether the name is that of a project behind a share.
    pub fn is_ephemeral(&self) -> bool {
        self.0.starts_with(EPHEMERAL_PREFIX)
    }
}

/// The three words of a share's address: `amber-quiet-otter`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String, pattern = "^[a-z]+-[a-z]+-[a-z]+$"))]
pub struct ShareName(String);

/// The text is not three words of a-z joined by hyphens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a share's name is three words joined by hyphens")]
pub struct ShareNameError;

impl ShareName {
    /// Creates a name from words that are known to be valid.
    pub(super) fn from_words(words: &str) -> Self {
        Self(words.to_owned())
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ShareName {
    type Err = ShareNameError;
    fn from_str(text: &str) -> Result<Self, ShareNameError> {
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
        if text.len() <= 63 && text.split('-').count() == 3 && text.split('-').all(is_word) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ShareNameError)
        }
    }
}

impl TryFrom<String> for ShareName {
    type Error = ShareNameError;
    fn try_from(text: String) -> Result<Self, ShareNameError> {
        text.parse()
    }
}

impl fmt::Display for ShareName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_against_every_rule() {
        for good in ["abc", "my-site", "a1b", "0-0", &"x".repeat(40)] {
            assert!(good.parse::<NewProjectName>().is_ok(), "{good}");
        }
        for (bad, why) in [
            ("ab", NameError::Form),
            (&*"x".repeat(41), NameError::Form),
            ("Abc", NameError::Form),
            ("a.b", NameError::Form),
            ("äbc", NameError::Form),
            ("-abc", NameError::Hyphen),
            ("abc-", NameError::Hyphen),
            ("xn--abc", NameError::Lookalike),
            ("0123456789abcdefghij--site", NameError::Lookalike),
            ("admin", NameError::Reserved),
            ("support", NameError::Reserved),
            ("mta-sts", NameError::Reserved),
            ("tmp-x", NameError::Ephemeral),
        ] {
            assert_eq!(bad.parse::<NewProjectName>(), Err(why), "{bad}");
        }
        // Existing names stay reachable.
        assert!("support".parse::<ProjectName>().is_ok() && "support".parse::<OrgName>().is_ok());
        assert!(ProjectName::ephemeral().is_ephemeral());
        assert!(ProjectName::ephemeral().as_str().parse::<ProjectName>().is_ok());
    }
}
