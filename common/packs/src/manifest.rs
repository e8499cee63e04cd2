//! The manifest of a pack: path → file, and the compiled `_headers` and `_redirects`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rules::robots::Robots;

/// The manifest of a deployment, from which an edge serves it. Stored as JSON and read whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Form of this manifest: [`Manifest::VERSION`].
    pub version: u32,
    /// Seconds since 1970 at which it was uploaded: `Last-Modified` of every file that does not say another time. Up to a minute later
    /// where the project's earlier pack has the same second.
    pub created_at: i64,
    /// Files by path: relative, `/` between segments, no leading `/`, as in the archive. `_headers` and `_redirects`
    /// at the root are not among them.
    pub files: BTreeMap<String, FileEntry>,
    /// The way in which [`FileEntry::fingerprinted`] was decided: [`Manifest::FINGERPRINTS`], or 0 in packs from when the
    /// spelling of a name was enough, of which no file is immutable.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fingerprints: u32,
    /// Compiled `_headers`, in file order.
    #[serde(default)]
    pub headers: Vec<HeaderRule>,
    /// Compiled `_redirects`, in file order; the first match wins.
    #[serde(default)]
    pub redirects: Vec<RedirectRule>,
    /// Rules of `_redirects` that programs before them would misread, each with the number of `redirects` that stand above it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extended_redirects: Vec<(usize, RedirectRule)>,
    /// The paths behind `Basic-Auth`. A manifest that has any is written as [`Manifest::GUARDED_VERSION`].
    #[serde(default, skip_serializing_if = "Access::is_empty")]
    pub access: Access,
    /// Compiled `robots.txt`.
    #[serde(default, skip_serializing_if = "Robots::is_empty")]
    pub robots: Robots,
    /// Files that are kept for whoever downloads the deployment, and that nobody is served: the text of `_headers` and `_redirects`
    /// at the root ([`super::rules::kept`]). Packs from before they were kept have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unserved: BTreeMap<String, FileEntry>,
}

impl Manifest {
    /// The form of a manifest.
    pub const VERSION: u32 = 1;
    /// The way in which this program decides what is fingerprinted: by what the site refers to.
    pub const FINGERPRINTS: u32 = 1;
    /// The form of a manifest with guarded paths: a program that knows of no guards must refuse it, not serve its files to everybody.
    pub const GUARDED_VERSION: u32 = 2;

    /// Returns whether this program reads manifests of the form `version`.
    pub fn is_readable(version: u32) -> bool {
        [Self::VERSION, Self::GUARDED_VERSION].contains(&version)
    }

    /// Returns the form that a manifest with these guarded paths has.
    pub fn version_with(access: &Access) -> u32 {
        if access.is_empty() { Self::VERSION } else { Self::GUARDED_VERSION }
    }

    /// Every file that the pack's data holds, with its path.
    pub fn stored_files(&self) -> impl Iterator<Item = (&String, &FileEntry)> {
        self.files.iter().chain(&self.unserved)
    }

    /// Splits compiled `_redirects` into what every program reads and what only newer ones do: the values of
    /// `redirects` and `extended_redirects`.
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

    /// Takes out the compiled `_redirects`, all in file order.
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

/// One file: its content and the forms it is stored in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// `Content-Type`, with charset where it is text.
    pub content_type: String,
    /// SHA-256 of the identity body, 64 hexadecimal digits.
    pub sha256: String,
    /// Whether the file's name carries a hash of its content, so that it may be cached for ever: see [`Manifest::fingerprints`].
    pub fingerprinted: bool,
    /// The coding in which the file was uploaded and is sent. It then has no variants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded: Option<Encoding>,
    /// The body as uploaded.
    pub identity: Span,
    /// Compressed variants, only those that are smaller than the identity; at most one an encoding.
    #[serde(default)]
    pub variants: Vec<(Encoding, Span)>,
    /// Whether it is a page of which a browser loads parts (styles, scripts, images) from the same site. Packs from before this
    /// was looked for do not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loads_parts: bool,
    /// The digests of the blocks of the body as uploaded, then of each variant, as [`super::block_digests`] writes them. Empty for
    /// a body of one block, which `sha256` tells. Packs from before there were digests of blocks have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<String>,
    /// Seconds since 1970 since when the project has had this content at this path, deployment by deployment. None where it is new
    /// with this one, and in packs from before this was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<i64>,
}

/// A range of the pack's `data` object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    /// First byte.
    pub offset: u64,
    /// Bytes.
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
    /// Every coding.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Br, Self::Gzip];

    /// Returns the coding's token in `Content-Encoding`.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Br => "br",
            Self::Gzip => "gzip",
        }
    }

    /// Returns the coding that `token` names.
    pub fn of_token(token: &str) -> Option<Self> {
        [Self::Zstd, Self::Br, Self::Gzip].into_iter().find(|coding| token.trim().eq_ignore_ascii_case(coding.token()))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// One block of `_headers`: what to set on, and take from, answers whose path matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderRule {
    /// The requests that the rule applies to.
    pub pattern: Pattern,
    /// Headers to set; values may hold `:splat` and `:placeholder`.
    pub set: Vec<(String, String)>,
    /// Headers to take away.
    pub unset: Vec<String>,
}

/// One line of `_redirects`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedirectRule {
    /// The requests that the rule applies to.
    pub pattern: Pattern,
    /// The target; may hold `:splat` and `:placeholder`.
    pub to: String,
    /// 301, 302, 303, 307 or 308; or that of an answer with the file `to` of the site: 200, 404 or 410.
    pub status: u16,
    /// Whether a file at the path that was asked for stands back: the status was written with `!`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_forced: bool,
    /// What else a request must meet.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
}

impl RedirectRule {
    /// Whether programs that know neither conditions nor [`Self::is_forced`] nor errors would do something else with it.
    fn is_extended(&self) -> bool {
        let is_error = matches!(self.status, 404 | 410);
        is_error || !self.conditions.is_empty() || (self.is_forced && self.status == 200)
    }
}

/// What a request must meet beside the path of its rule: all of it, of each list any one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Conditions {
    /// Parameters of the query, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<(String, Parameter)>,
    /// Languages, as tags in lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub languages: Vec<String>,
    /// Countries, as two capital letters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub countries: Vec<String>,
}

impl Conditions {
    /// Whether every request meets them.
    pub fn is_empty(&self) -> bool {
        self.query.is_empty() && self.languages.is_empty() && self.countries.is_empty()
    }
}

/// The value that a parameter of the query must have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Parameter {
    /// This one, decoded.
    Value(String),
    /// Any, which `:name` in the target stands for.
    Placeholder(String),
}

/// Paths that a site shows to nobody without a user name and a password, by `Basic-Auth` in `_headers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Everybody who is named anywhere; a name is there once.
    pub accounts: Vec<Account>,
    /// The guarded paths.
    pub guards: Vec<Guard>,
}

impl Access {
    /// Whether no path is guarded.
    pub fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }
}

/// A user name and the hash of its password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The name.
    pub user: String,
    /// The password's argon2id hash, as a PHC string.
    pub hash: String,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Account")
    }
}

/// Paths, and who may see what is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// The paths, at whichever host.
    pub pattern: Pattern,
    /// Places in [`Access::accounts`]. Without any, nobody may.
    pub accounts: Vec<usize>,
}

/// A path pattern of `_headers` and `_redirects` (Cloudflare Pages' syntax), parsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// The host to match as well, for patterns that begin with `https://`; else any host.
    #[serde(default)]
    pub host: Option<String>,
    /// The path's segments.
    pub segments: Vec<Segment>,
}

/// A piece of a path pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Segment {
    /// These characters.
    Literal(String),
    /// `:name`: anything but `/`, at least one character.
    Placeholder(String),
    /// `*`: anything, also nothing. At most one a pattern.
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
            robots: Robots::default(),
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
