//! The manifest of a pack: path → file, and the compiled `_headers` and `_redirects`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rules::robots::Robots;

/// The manifest of a deployment, from which an edge serves it. Stored as JSON and read whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Form of this manifest: [`Manifest::VERSION`].
    pub version: u32,
    /// Seconds since 1970 at which it was uploaded: `Last-Modified` of every file.
    pub created_at: i64,
    /// Files by path: relative, `/` between segments, no leading `/`, as in the archive. `_headers` and `_redirects`
    /// at the root are not among them.
    pub files: BTreeMap<String, FileEntry>,
    /// Compiled `_headers`, in file order.
    #[serde(default)]
    pub headers: Vec<HeaderRule>,
    /// Compiled `_redirects`, in file order; the first match wins.
    #[serde(default)]
    pub redirects: Vec<RedirectRule>,
    /// Compiled `robots.txt`.
    #[serde(default, skip_serializing_if = "Robots::is_empty")]
    pub robots: Robots,
}

impl Manifest {
    /// The form this program writes.
    pub const VERSION: u32 = 1;
}

/// One file: its content and the forms it is stored in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// `Content-Type`, with charset where it is text.
    pub content_type: String,
    /// SHA-256 of the identity body, 64 hexadecimal digits.
    pub sha256: String,
    /// Whether the file's name carries a hash of its content, so that it may be cached for ever.
    pub fingerprinted: bool,
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
    /// Returns the coding's token in `Content-Encoding`.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Br => "br",
            Self::Gzip => "gzip",
        }
    }
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
    /// 200 (a rewrite inside the site), 301, 302, 303, 307 or 308.
    pub status: u16,
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
