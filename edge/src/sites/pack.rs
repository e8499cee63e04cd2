//! A pack as it is kept in memory: its files by path, each with the headers of its answers made once.

use std::{collections::HashMap, sync::OnceLock, time::SystemTime};

use domain::DeploymentId;
use http::{
    HeaderMap, HeaderValue,
    header::{
        ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED, SERVER,
        VARY, X_CONTENT_TYPE_OPTIONS,
    },
};
use packs::{Encoding, FileEntry, Manifest, Span, manifest::RedirectRule, rules};

use super::{conditional, header_rules::HeaderChange, rules::Rules};
use crate::http::{self as own, pages::NOSNIFF};

/// For a file that may be kept for ever: its name changes when its content does.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// Everything else may be kept, and is asked for again.
pub(crate) const REVALIDATE: HeaderValue = HeaderValue::from_static("public, max-age=0, must-revalidate");
/// Bytes that a file takes in memory beside its path, about: the entry, and the headers of its forms.
const FILE_WEIGHT: usize = 1024;
/// Bytes that a rule takes, about.
const RULE_WEIGHT: usize = 512;

/// A deployment's files.
pub(crate) struct Pack {
    pub(crate) id: DeploymentId,
    /// The id as a number.
    pub(crate) number: u128,
    pub(crate) redirects: Rules<RedirectRule>,
    pub(crate) headers: Rules<HeaderChange>,
    pub(crate) modified: SystemTime,
    /// Whether unknown paths are the business of index.html's script: there is one, and no 404.html anywhere.
    pub(crate) single_page: bool,
    modified_value: HeaderValue,
    files: HashMap<Box<str>, File>,
    weight: u32,
}

/// One file of a pack.
pub(crate) struct File {
    /// Its media type.
    pub(crate) content_type: HeaderValue,
    /// SHA-256 of the file as it is, in hexadecimal.
    pub(crate) sha256: Box<str>,
    /// Whether its name carries a hash of its content.
    pub(crate) fingerprinted: bool,
    identity: Span,
    variants: Box<[(Encoding, Span)]>,
    forms: OnceLock<Box<[Form]>>,
}

/// One form in which a file can be sent.
pub(crate) struct Form {
    /// Its coding; none for the file as it is.
    pub(crate) encoding: Option<Encoding>,
    /// Its place in the pack.
    pub(crate) span: Span,
    /// The headers of a whole 200 answer.
    pub(crate) headers: HeaderMap,
    etag: String,
}

impl Pack {
    /// Of a manifest.
    pub(crate) fn new(id: DeploymentId, manifest: Manifest) -> Self {
        let names_weight: usize = manifest.files.keys().map(String::len).sum();
        let headers = rules::headers::within_bounds(manifest.headers);
        let redirects = rules::redirects::within_bounds(manifest.redirects);
        let rules_weight = (headers.len() + redirects.len()) * RULE_WEIGHT;
        let weight = names_weight + manifest.files.len() * FILE_WEIGHT + rules_weight;
        let has_404 = manifest.files.keys().any(|path| path == "404.html" || path.ends_with("/404.html"));
        let modified = conditional::instant(manifest.created_at);
        let mut types = HashMap::new();
        let files: HashMap<_, _> = manifest
            .files
            .into_iter()
            .map(|(path, entry)| (path.into_boxed_str(), File::new(entry, &mut types)))
            .collect();
        Self {
            // 20 digits to the base 36 take 104 bits, so that different ids are different numbers.
            number: u128::from_str_radix(id.body(), 36).unwrap_or_default(),
            id,
            redirects: Rules::new(redirects.into_iter().map(|rule| (rule.pattern.clone(), rule)).collect()),
            headers: Rules::new(
                headers.into_iter().map(|rule| (rule.pattern.clone(), HeaderChange::new(rule))).collect(),
            ),
            modified,
            single_page: !has_404 && files.contains_key("index.html"),
            modified_value: HeaderValue::try_from(httpdate::fmt_http_date(modified)).unwrap_or(NOSNIFF),
            files,
            weight: u32::try_from(weight).unwrap_or(u32::MAX),
        }
    }

    /// The file of exactly this path (no leading slash).
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// Bytes it takes in memory, about.
    pub(crate) fn weight(&self) -> u32 {
        self.weight
    }

    /// The forms of a file: as it is, then the compressed ones.
    pub(crate) fn forms<'f>(&self, file: &'f File) -> &'f [Form] {
        file.forms.get_or_init(|| {
            let compressed = file.variants.iter().map(|&(encoding, span)| (Some(encoding), span));
            std::iter::once((None, file.identity))
                .chain(compressed)
                .map(|(encoding, span)| Form::new(file, encoding, span, &self.modified_value))
                .collect()
        })
    }
}

impl File {
    /// `types` are those met so far: ten thousand files share a dozen.
    fn new(entry: FileEntry, types: &mut HashMap<String, HeaderValue>) -> Self {
        let content_type = types.entry(entry.content_type).or_insert_with_key(|text| {
            HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("application/octet-stream"))
        });
        Self {
            content_type: content_type.clone(),
            sha256: entry.sha256.into_boxed_str(),
            fingerprinted: entry.fingerprinted,
            identity: entry.identity,
            variants: entry.variants.into_boxed_slice(),
            forms: OnceLock::new(),
        }
    }
}

impl Form {
    fn new(file: &File, encoding: Option<Encoding>, span: Span, modified: &HeaderValue) -> Self {
        // The length tells apart what two versions of a compressor made of the same content.
        let content = file.sha256.get(..32).unwrap_or(&file.sha256);
        let etag = match encoding {
            None => format!("\"{content}\""),
            Some(encoding) => format!("\"{content}-{}-{:x}\"", encoding.token(), span.len),
        };
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(CONTENT_TYPE, file.content_type.clone());
        headers.insert(CONTENT_LENGTH, span.len.into());
        if let Ok(etag) = HeaderValue::try_from(&etag) {
            headers.insert(ETAG, etag);
        }
        headers.insert(LAST_MODIFIED, modified.clone());
        headers.insert(CACHE_CONTROL, if file.fingerprinted { IMMUTABLE } else { REVALIDATE });
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        // Set on every answer anyway; from here it takes no room that each would have to make.
        headers.insert(SERVER, own::SERVER);
        // Also where there is only one form: the next deployment of the same address may have more.
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        if let Some(encoding) = encoding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.token()));
        }
        Self { encoding, span, headers, etag }
    }

    /// Its entity tag, quotes included.
    pub(crate) fn etag(&self) -> &str {
        &self.etag
    }
}
