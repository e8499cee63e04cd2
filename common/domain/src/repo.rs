//! Repositories at the code host, and the part of them that a project publishes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};

use super::line;

/// The pusher's login if the code host gives none.
pub const UNNAMED_PUSHER: &str = "code host";

/// Maximum bytes of a branch's name. Git's own bound is the file system's.
const BRANCH_BYTES: usize = 255;
/// Maximum bytes of a directory, the same as for a path in an archive.
const DIRECTORY_BYTES: usize = 1_024;
/// Maximum characters of an owner's or a repository's name; GitHub's own bounds are 39 and 100.
const NAME_CHARS: usize = 100;

/// The reason a repository link was rejected. The text is shown to the person who requested it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RepoError {
    /// The repository is not of the form `owner/name`.
    #[error("repo must be `owner/name`, as the code host shows it")]
    Name,
    /// The branch is not a valid git branch name.
    #[error("branch must be the name of a branch, without refs/heads/")]
    Branch,
    /// The directory is not a folder within the repository.
    #[error("directory must be a folder within the repository, like `dist` or `site/public`, without `..`")]
    Directory,
    /// The text is not a commit id.
    #[error("sha must be the id of a commit: 40 or 64 hexadecimal digits")]
    Sha,
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $read:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
        #[serde(transparent)]
        #[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String))]
        pub struct $name(String);

        impl $name {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = RepoError;
            fn from_str(text: &str) -> Result<Self, RepoError> {
                $read(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

text!(
    /// A repository's `owner/name`.
    RepoName,
    read_name
);
text!(
    /// A branch, without `refs/heads/`.
    Branch,
    read_branch
);
text!(
    /// A folder of a repository in canonical form: `.` for the root, otherwise `site/public`.
    Directory,
    read_directory
);
text!(
    /// The id of a commit, in lower case.
    CommitSha,
    read_sha
);

impl RepoName {
    /// Returns the owner and the name.
    pub fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or((&self.0, ""))
    }
}

impl CommitSha {
    /// Returns git's null id, which means no commit.
    pub fn null() -> Self {
        Self("0".repeat(40))
    }

    /// Returns whether this is git's null id, of any length.
    pub fn is_null(&self) -> bool {
        self.0.bytes().all(|b| b == b'0')
    }
}

impl Directory {
    /// Returns the root of the repository.
    pub fn root() -> Self {
        Self(".".to_owned())
    }

    /// Returns the folder names along the path; none for the root.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|segment| *segment != ".")
    }
}

fn read_name(text: &str) -> Result<String, RepoError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let good =
        |part: &str| (1..=NAME_CHARS).contains(&part.len()) && part.bytes().all(allowed) && !matches!(part, "." | "..");
    let (owner, name) = text.split_once('/').ok_or(RepoError::Name)?;
    if good(owner) && good(name) { Ok(text.to_owned()) } else { Err(RepoError::Name) }
}

/// Checks the rules of `git check-ref-format`.
fn read_branch(text: &str) -> Result<String, RepoError> {
    let odd = |c: char| line::is_hidden(c) || c.is_whitespace() || "~^:?*[\\".contains(c);
    let bad_segment = |s: &str| {
        s.is_empty()
            || s.starts_with('.')
            || s.ends_with('.')
            || s.rsplit_once('.').is_some_and(|(_, end)| end == "lock")
    };
    let bad = text.is_empty()
        || text.len() > BRANCH_BYTES
        || text == "@"
        || text.starts_with('-')
        || text.starts_with("refs/")
        || text.contains("..")
        || text.contains("@{")
        || text.contains(odd)
        || text.split('/').any(bad_segment);
    if bad { Err(RepoError::Branch) } else { Ok(text.to_owned()) }
}

fn read_directory(text: &str) -> Result<String, RepoError> {
    let bad = text.len() > DIRECTORY_BYTES
        || line::has_hidden(text)
        || text.contains('\\')
        || text.split('/').any(|segment| segment == "..");
    if bad {
        return Err(RepoError::Directory);
    }
    // People write a leading `/` for the repository's root.
    let segments: Vec<&str> = text.trim().split('/').filter(|segment| !matches!(*segment, "" | ".")).collect();
    Ok(if segments.is_empty() { ".".to_owned() } else { segments.join("/") })
}

fn read_sha(text: &str) -> Result<String, RepoError> {
    let good = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
    if good { Ok(text.to_ascii_lowercase()) } else { Err(RepoError::Sha) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_have_an_owner_and_a_name() {
        let name: RepoName = "octo-org/hello.world_2".parse().unwrap();
        assert_eq!(name.parts(), ("octo-org", "hello.world_2"));
        for bad in ["", "a", "a/", "/b", "a/b/c", "a/..", "../b", "a b/c", "a/b?x", "a/b#", "ä/b", "a\0/b"] {
            assert_eq!(bad.parse::<RepoName>(), Err(RepoError::Name), "{bad:?}");
        }
        assert!(format!("a/{}", "x".repeat(101)).parse::<RepoName>().is_err());
    }

    #[test]
    fn branches_follow_gits_rules() {
        for good in ["main", "feature/x", "release-1.2", "fix#7", "caf\u{e9}", "a@b"] {
            assert!(good.parse::<Branch>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "@",
            "-x",
            "a..b",
            "a//b",
            "/a",
            "a/",
            ".a",
            "a/.b",
            "a.",
            "a.lock",
            "a b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "a@{1}",
            "a\nb",
            "a\u{202e}b",
            "a\u{200b}b",
            "refs/heads/main",
        ] {
            assert_eq!(bad.parse::<Branch>(), Err(RepoError::Branch), "{bad:?}");
        }
    }

    #[test]
    fn directories_have_one_spelling_and_stay_inside() {
        for (given, kept) in [
            ("", "."),
            (".", "."),
            ("/", "."),
            ("./dist/", "dist"),
            ("/site//public", "site/public"),
            ("a/./b", "a/b"),
            ("..a/b..", "..a/b.."),
        ] {
            assert_eq!(given.parse::<Directory>().unwrap().as_str(), kept, "{given:?}");
        }
        assert_eq!(Directory::root().segments().count(), 0);
        assert_eq!("a/b".parse::<Directory>().unwrap().segments().collect::<Vec<_>>(), ["a", "b"]);
        for bad in ["..", "../x", "a/../b", "a/..", "a\\b", "a\0b", "a\nb", "a\u{202e}b", "a\u{feff}b"] {
            assert_eq!(bad.parse::<Directory>(), Err(RepoError::Directory), "{bad:?}");
        }
    }

    #[test]
    fn commits_are_named_by_their_whole_id() {
        let sha: CommitSha = "6DCB09B5B57875F334F61AEBED695E2E4193DB5E".parse().unwrap();
        assert_eq!(sha.as_str(), "6dcb09b5b57875f334f61aebed695e2e4193db5e");
        assert!(!sha.is_null() && CommitSha::null().is_null());
        assert_eq!(CommitSha::null().as_str().parse(), Ok(CommitSha::null()));
        for bad in ["", "main", "6dcb09b", "6dcb09b5b57875f334f61aebed695e2e4193db5g"] {
            assert_eq!(bad.parse::<CommitSha>(), Err(RepoError::Sha), "{bad:?}");
        }
    }
}
