//! The manifest of a pack: files by path, and the compiled `_headers` and `_redirects`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rules::robots::RobotsRules;

/// The manifest from which an edge serves a deployment. Stored as JSON and read as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format of this manifest: [`Manifest::VERSION`] or [`Manifest::GUARDED_VERSION`].
    pub version: u32,
    /// The time of upload in seconds since 1970: `Last-Modified` of every file without a time of its own. Up to a
    /// minute later, to differ from the project's earlier pack.
    pub created_at: i64,
    /// Files by relative path, as in the archive, with `/` between segments; without `_headers` and `_redirects` at the
    /// root.
    pub files: BTreeMap<String, FileEntry>,
    /// The method that decided [`FileEntry::fingerprinted`]: [`Manifest::FINGERPRINTS`], or 0 in older packs, which
    /// went by the spelling of names alone and whose files are never immutable.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fingerprints: u32,
    /// Compiled `_headers`, in file order.
    #[serde(default)]
    pub headers: Vec<HeaderRule>,
    /// Compiled `_redirects`, in file order; the first match wins.
    #[serde(default)]
    pub redirects: Vec<RedirectRule>,
    /// Rules of `_redirects` that older programs would misread, each with the number of `redirects` above it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extended_redirects: Vec<(usize, RedirectRule)>,
    /// The paths behind `Basic-Auth`. A manifest with such paths is written as [`Manifest::GUARDED_VERSION`].
    #[serde(default, skip_serializing_if = "AccessRules::is_empty")]
    pub access: AccessRules,
    /// Compiled `robots.txt`.
    #[serde(default, skip_serializing_if = "RobotsRules::is_empty")]
    pub robots: RobotsRules,
    /// Files that are stored for downloads of the deployment but never served: the text of `_headers` and `_redirects`
    /// at the root ([`super::rules::kept`]). Absent in packs from before these were stored.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unserved: BTreeMap<String, FileEntry>,
}

impl Manifest {
    /// The format of a manifest.
    pub const VERSION: u32 = 1;
    /// The current method of detecting fingerprints: by the site's references.
    pub const FINGERPRINTS: u32 = 1;
    /// The format of a manifest with guarded paths. Programs that do not know guards must reject it, not serve its
    /// files.
    pub const GUARDED_VERSION: u32 = 2;

    /// Returns whether this program reads manifests of the format `version`.
    pub fn is_readable(version: u32) -> bool {
        [Self::VERSION, Self::GUARDED_VERSION].contains(&version)
    }

    /// Returns the format of a manifest with these guarded paths.
    pub fn version_with(access: &AccessRules) -> u32 {
        if access.is_empty() { Self::VERSION } else { Self::GUARDED_VERSION }
    }

    /// Returns every file in the pack's data, with its path.
    pub fn stored_files(&self) -> impl Iterator<Item = (&String, &FileEntry)> {
        self.files.iter().chain(&self.unserved)
    }

    /// Splits compiled `_redirects` into `redirects`, which every program reads, and `extended_redirects`.
    pub fn split_redirects(rules: Vec<RedirectRule>) -> (Vec<RedirectRule>, Vec<(usize, RedirectRule)>) {
        let (mut plain, mut extended) = (Vec::new(), Vec::new());
        for rule in rules {
            if rule.is_extended() {
                extended.push((plain.len(), rule));
            } else {
                plain.push(rule);
            }
        }
        (plain, extended)
    }

    /// Takes all compiled `_redirects`, in file order.
    pub fn take_redirects(&mut self) -> Vec<RedirectRule> {
        let mut extended = std::mem::take(&mut self.extended_redirects).into_iter().peekable();
        let mut rules = Vec::with_capacity(self.redirects.len() + extended.len());
        for (at, rule) in std::mem::take(&mut self.redirects).into_iter().enumerate() {
            while let Some((_, before)) = extended.next_if(|(before, _)| *before <= at) {
                rules.push(before);
            }
            rules.push(rule);
        }
        rules.extend(extended.map(|(_, rule)| rule));
        rules
    }
}

/// A file: its content and stored forms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// `Content-Type`, with a charset for text.
    pub content_type: String,
    /// SHA-256 of the identity body, 64 hexadecimal digits.
    pub sha256: String,
    /// Whether the name carries a hash of the content, so that the file may be cached forever: see
    /// [`Manifest::fingerprints`].
    pub fingerprinted: bool,
    /// The encoding in which the file was uploaded and is sent. Such a file has no variants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded: Option<Encoding>,
    /// The body as uploaded.
    pub identity: Span,
    /// Compressed variants that are smaller than the identity; at most one per encoding.
    #[serde(default)]
    pub variants: Vec<(Encoding, Span)>,
    /// Whether the file is a page that makes a browser load subresources (styles, scripts, images) from the same site.
    /// Always `false` in packs from before this was detected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loads_parts: bool,
    /// The block digests of the uploaded body, then of each variant, in the format of [`super::block_digests`]. Empty
    /// for a body of one block, which `sha256` covers. Packs from before block digests have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<String>,
    /// The time in seconds since 1970 since which the project has had this content at this path in every deployment.
    /// `None` for new content, and in packs from before this was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<i64>,
}

/// A range of the pack's `data` object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// `zstd` (RFC 8878).
    Zstd,
    /// `br` (RFC 7932).
    Br,
    /// `gzip` (RFC 1952).
    Gzip,
}

impl Encoding {
    /// All codings.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Br, Self::Gzip];

    /// Returns the coding's token in `Content-Encoding`.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Br => "br",
            Self::Gzip => "gzip",
        }
    }

    /// Returns the coding with this token.
    pub fn from_token(token: &str) -> Option<Self> {
        [Self::Zstd, Self::Br, Self::Gzip].into_iter().find(|coding| token.trim().eq_ignore_ascii_case(coding.token()))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A block of `_headers`: headers to set or remove on responses whose path matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderRule {
    /// The requests that the rule applies to.
    pub pattern: PathPattern,
    /// Headers to set; values may contain `:splat` and `:placeholder`.
    pub set: Vec<(String, String)>,
    /// Headers to remove.
    pub unset: Vec<String>,
}

/// A line of `_redirects`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedirectRule {
    /// The requests that the rule applies to.
    pub pattern: PathPattern,
    /// The target, which may contain `:splat` and `:placeholder`.
    pub to: String,
    /// 301, 302, 303, 307 or 308; or the status of a response with the site's file `to`: 200, 404 or 410.
    pub status: u16,
    /// Whether the rule takes precedence over a file at the requested path: the status was written with `!`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_forced: bool,
    /// Additional conditions on the request.
    #[serde(default, skip_serializing_if = "RedirectConditions::is_empty")]
    pub conditions: RedirectConditions,
}

impl RedirectRule {
    /// Returns whether older programs, without conditions, [`Self::is_forced`] or errors, would treat it differently.
    fn is_extended(&self) -> bool {
        let is_error = matches!(self.status, 404 | 410);
        is_error || !self.conditions.is_empty() || (self.is_forced && self.status == 200)
    }
}

/// Conditions besides the path: all of `query`, one of `languages` if there are any, and one of `countries` if there
/// are any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RedirectConditions {
    /// Query parameters, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<(String, ParameterValue)>,
    /// Languages, as lower-case tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub languages: Vec<String>,
    /// Countries, as two capital letters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub countries: Vec<String>,
}

impl RedirectConditions {
    /// Returns whether there are no conditions.
    pub fn is_empty(&self) -> bool {
        self.query.is_empty() && self.languages.is_empty() && self.countries.is_empty()
    }
}

/// The required value of a query parameter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParameterValue {
    /// This value, decoded.
    Value(String),
    /// Any value, available as `:name` in the target.
    Placeholder(String),
}

/// Paths that a site protects with a user name and a password, by `Basic-Auth` in `_headers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRules {
    /// All accounts, with unique names.
    pub accounts: Vec<GuardAccount>,
    /// The guarded paths.
    pub guards: Vec<PathGuard>,
}

impl AccessRules {
    /// Returns whether no path is guarded.
    pub fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }
}

/// A user name and the hash of its password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardAccount {
    /// The name.
    pub user: String,
    /// The password's argon2id hash, as a PHC string.
    pub hash: String,
}

impl std::fmt::Debug for GuardAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Account")
    }
}

/// Paths, and the accounts that may access them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathGuard {
    /// The paths, on any host.
    pub pattern: PathPattern,
    /// Indices in [`AccessRules::accounts`]. Without any, access is denied to everybody.
    pub accounts: Vec<usize>,
}

/// A parsed path pattern of `_headers` and `_redirects` (Cloudflare Pages' syntax).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathPattern {
    /// The host to match, for patterns that begin with `https://`; otherwise any host matches.
    #[serde(default)]
    pub host: Option<String>,
    /// The path's segments.
    pub segments: Vec<PatternSegment>,
}

/// A piece of a path pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatternSegment {
    /// Literal characters.
    Literal(String),
    /// `:name`: anything but `/`, at least one character.
    Placeholder(String),
    /// `*`: any characters, possibly none. At most one per pattern.
    Splat,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{headers, redirects};

    #[test]
    fn plain_rules_are_written_as_ever() {
        let (redirects, _) = redirects::compile(b"/a /b 301!\n/c/:d-:e /f\n/* /g 200\n/h /i 200!\n", |_| false);
        let (redirects, extended_redirects) = Manifest::split_redirects(redirects);
        let headers = headers::compile(b"/*\n X-A: b\n");
        let mut manifest = Manifest {
            version: Manifest::version_with(&headers.access),
            created_at: 0,
            files: BTreeMap::new(),
            fingerprints: 0,
            headers: headers.rules,
            redirects,
            extended_redirects: Vec::new(),
            access: headers.access,
            robots: RobotsRules::default(),
            unserved: BTreeMap::new(),
        };
        let json = serde_json::to_string(&manifest).unwrap();
        assert!(json.starts_with(r#"{"version":1,"#), "{json}");
        for newer in ["extended", "access", "conditions", "encoding", "unserved"] {
            assert!(!json.contains(newer), "{newer}: {json}");
        }
        assert_eq!((manifest.redirects.len(), extended_redirects.len()), (3, 1));
        manifest.access = headers::compile(b"/a\n Basic-Auth: ann:sesame\n").access;
        assert_eq!(Manifest::version_with(&manifest.access), 2);
    }
}
