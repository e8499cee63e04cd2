//! A pack in memory: its files by path, with their response headers. Headers that many files share are stored once.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use domain::{DeploymentId, PayingAccount, traffic::agents::KnownAgent};
use http::{
    HeaderMap, HeaderValue, Uri,
    header::{
        ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED, SERVER,
        VARY, X_CONTENT_TYPE_OPTIONS,
    },
};
use http_types::{self as own, ServedKind, pages::NOSNIFF};
use packs::{
    Encoding, FileEntry, Manifest, StoredBody,
    manifest::{PathPattern, PatternSegment, RedirectRule},
    rules::{self, robots::RobotsRules},
};

use super::{
    cache::BodyCache,
    conditional,
    copies::numeric_id,
    guards::PathGuards,
    header_rules::HeaderEdit,
    rules::{RedirectAction, RuleSet},
    spellings::UnicodeSpellings,
};

/// For fingerprinted files: their name changes with their content.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// For all other files: caches may keep them but must revalidate.
pub(crate) const REVALIDATE: HeaderValue = HeaderValue::from_static("public, max-age=0, must-revalidate");
/// Approximate memory of a file in bytes, its map entry included and its path excluded.
const FILE_WEIGHT: usize = 512;
/// Approximate memory of a form of a file in bytes, allocated at its first request.
const FORM_WEIGHT: usize = 400;
/// Approximate memory in bytes of the headers that files of one kind share, in all their forms.
const KIND_WEIGHT: usize = 6 * 1024;
const DATE_WEIGHT: usize = 128;
const RULE_WEIGHT: usize = 256;
/// Approximate overhead in bytes of a pattern segment or a header field. A pattern's text is stored twice.
const RULE_PART_WEIGHT: usize = 128;

/// The location of a deployment's file bytes: all that a response in progress keeps of its pack.
pub(crate) struct PackData {
    pub(crate) id: DeploymentId,
    pub(crate) number: u128,
    /// The account that owned the site when the manifest was read; body reads are charged to it.
    pub(crate) owner: PayingAccount,
    pub(crate) bodies: Arc<BodyCache>,
}

/// A deployment's files and rules.
pub(crate) struct LoadedPack {
    pub(crate) data: Arc<PackData>,
    pub(crate) redirects: RuleSet<RedirectAction>,
    /// Whether any redirect depends on more than the path.
    pub(crate) has_conditions: bool,
    pub(crate) guards: Arc<PathGuards>,
    pub(crate) headers: RuleSet<HeaderEdit>,
    single_page: Option<SinglePage>,
    robots: RobotsRules,
    dates: Vec<ModifiedDate>,
    files: HashMap<Arc<str>, PackFile>,
    spellings: UnicodeSpellings,
    kinds: Vec<FileKind>,
    weight: u64,
}

/// A modification date shared by files.
struct ModifiedDate {
    at: SystemTime,
    value: HeaderValue,
}

/// The kinds and dates collected while the files of a manifest are read.
#[derive(Default)]
struct ManifestTables {
    kinds: Vec<FileKind>,
    kind_of: HashMap<(String, bool, Option<Encoding>), usize>,
    dates: Vec<ModifiedDate>,
    date_of: HashMap<i64, usize>,
}

/// The page that a single-page site serves for addresses without a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SinglePage {
    /// `200.html` at the root, whether or not the site has 404 pages.
    Own,
    /// `index.html` at the root of a site without any `404.html`.
    Index,
}

/// The headers shared by files of one media type, cache lifetime and uploaded encoding. One header map for each form,
/// in the order of [`FileKind::slot`]: a full 200 response without the headers specific to each file.
struct FileKind {
    content_type: HeaderValue,
    is_immutable: bool,
    /// The encoding in which the site uploaded the files.
    encoded: Option<Encoding>,
    headers: [OnceLock<HeaderMap>; 4],
}

pub(crate) struct PackFile {
    pub(crate) content_type: HeaderValue,
    /// SHA-256 of the uploaded file, in hexadecimal.
    pub(crate) sha256: Box<str>,
    /// Whether the file is lent to tabs that were opened before the next deployment.
    pub(crate) is_lent: bool,
    /// The category of the file in visit statistics.
    pub(crate) served: ServedKind,
    pub(crate) path: Arc<str>,
    /// Whether no other file would take over its address if it were removed.
    pub(crate) is_alone: bool,
    kind: usize,
    date: usize,
    bodies: Box<[(Option<Encoding>, StoredBody)]>,
    forms: OnceLock<Box<[FileForm]>>,
}

pub(crate) struct FileForm {
    /// The encoding; `None` for the file as uploaded.
    pub(crate) encoding: Option<Encoding>,
    pub(crate) body: StoredBody,
    length: HeaderValue,
    etag: HeaderValue,
}

impl LoadedPack {
    pub(crate) fn new(
        (id, owner): (DeploymentId, PayingAccount),
        mut manifest: Manifest,
        bodies: Arc<BodyCache>,
    ) -> Self {
        let mut met = ManifestTables::default();
        manifest.headers = rules::headers::within_bounds(manifest.headers);
        let redirects = rules::redirects::within_bounds(manifest.take_redirects());
        let has_conditions = redirects.iter().any(|rule| !rule.conditions.is_empty());
        let weight = estimate_weight(&manifest, &redirects);
        let guards = Arc::new(PathGuards::new(std::mem::take(&mut manifest.access)));
        let created_at = manifest.created_at;
        // In older manifests, fingerprints were judged by name alone, so these files are revalidated.
        let is_decided = manifest.fingerprints >= Manifest::FINGERPRINTS;
        let mut files: HashMap<_, _> = manifest
            .files
            .into_iter()
            .map(|(path, entry)| {
                let path: Arc<str> = path.into();
                let file = PackFile::new(entry, path.clone(), is_decided, created_at, &mut met);
                (path, file)
            })
            .collect();
        mark_shared_addresses(&mut files);
        let spellings = UnicodeSpellings::from_paths(files.keys().map(|path| &**path));
        let ManifestTables { kinds, dates, .. } = met;
        Self {
            data: Arc::new(PackData { number: numeric_id(&id), id, owner, bodies }),
            redirects: RuleSet::new(redirects.into_iter().map(RedirectAction::new).collect()),
            has_conditions,
            guards,
            headers: RuleSet::new(
                manifest.headers.into_iter().map(|rule| (rule.pattern.clone(), HeaderEdit::new(rule))).collect(),
            ),
            robots: manifest.robots.within_bounds(),
            single_page: SinglePage::for_files(&files),
            weight: (weight + kinds.len() * KIND_WEIGHT + dates.len() * DATE_WEIGHT + spellings.weight()) as u64,
            dates,
            files,
            spellings,
            kinds,
        }
    }

    /// Returns the file at this path (no leading slash), or one whose path is the same text in another Unicode form.
    pub(crate) fn file(&self, path: &str) -> Option<&PackFile> {
        self.files.get(path).or_else(|| self.spellings.find(path, |spelling| self.files.get(spelling)))
    }

    /// Returns the time since which a file has had its content, as in `Last-Modified`.
    pub(crate) fn modified(&self, file: &PackFile) -> Option<SystemTime> {
        self.dates.get(file.date).map(|date| date.at)
    }

    pub(crate) fn encoding(&self, file: &PackFile) -> Option<Encoding> {
        self.kinds.get(file.kind)?.encoded
    }

    /// Returns the page that answers a navigation to an address without a file; the site's script does the routing.
    pub(crate) fn single_page(&self) -> Option<&PackFile> {
        self.file(self.single_page?.path())
    }

    /// Returns whether the site has a `200.html`: navigations without a file get it instead of the site's 404 page.
    pub(crate) fn has_own_single_page(&self) -> bool {
        self.single_page == Some(SinglePage::Own)
    }

    /// Returns whether the site's `robots.txt` disallows `uri` for `agent`.
    pub(crate) fn disallows(&self, agent: &KnownAgent, uri: &Uri) -> bool {
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        // Also matches the agent's `User-Agent` token, besides its common name.
        self.robots.is_disallowed(&[agent.name, agent.pattern.trim_matches(['^', '|', '/'])], path)
    }

    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// Returns the headers of a full 200 response with a form of a file.
    pub(crate) fn form_headers(&self, file: &PackFile, form: &FileForm) -> HeaderMap {
        let kind = self.kinds.get(file.kind);
        let common =
            kind.and_then(|kind| kind.headers.get(FileKind::slot(form.encoding)).map(|headers| (kind, headers)));
        let mut headers = common.map_or_else(HeaderMap::new, |(kind, headers)| {
            headers.get_or_init(|| kind.headers_with(form.encoding)).clone()
        });
        headers.insert(CONTENT_LENGTH, form.length.clone());
        headers.insert(ETAG, form.etag.clone());
        if let Some(date) = self.dates.get(file.date) {
            headers.insert(LAST_MODIFIED, date.value.clone());
        }
        headers
    }
}

impl ManifestTables {
    fn kind(&mut self, content_type: String, is_immutable: bool, encoded: Option<Encoding>) -> usize {
        *self.kind_of.entry((content_type, is_immutable, encoded)).or_insert_with_key(|(text, ..)| {
            let content_type = HeaderValue::try_from(text);
            let content_type = content_type.unwrap_or(HeaderValue::from_static("application/octet-stream"));
            self.kinds.push(FileKind { content_type, is_immutable, encoded, headers: Default::default() });
            self.kinds.len() - 1
        })
    }

    fn date(&mut self, unix_seconds: i64) -> usize {
        *self.date_of.entry(unix_seconds).or_insert_with(|| {
            let at = conditional::from_unix_seconds(unix_seconds);
            let value = HeaderValue::try_from(httpdate::fmt_http_date(at)).unwrap_or(NOSNIFF);
            self.dates.push(ModifiedDate { at, value });
            self.dates.len() - 1
        })
    }
}

impl SinglePage {
    fn for_files(files: &HashMap<Arc<str>, PackFile>) -> Option<Self> {
        let has_404 = || files.keys().any(|path| &**path == "404.html" || path.ends_with("/404.html"));
        if files.contains_key(Self::Own.path()) {
            Some(Self::Own)
        } else if files.contains_key(Self::Index.path()) && !has_404() {
            Some(Self::Index)
        } else {
            None
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Own => "200.html",
            Self::Index => "index.html",
        }
    }
}

/// Returns the approximate bytes of a manifest's pack, without its kinds, once every form of every file was requested.
fn estimate_weight(manifest: &Manifest, redirects: &[RedirectRule]) -> usize {
    let files = manifest.files.iter().map(|(path, file)| {
        let digests: usize = file.digests.iter().map(|hex| hex.len() / 2).sum();
        path.len() + file.sha256.len() + digests + FILE_WEIGHT + (1 + file.variants.len()) * FORM_WEIGHT
    });
    let pattern = |pattern: &PathPattern| {
        let parts = pattern.segments.iter().map(|segment| match segment {
            PatternSegment::Literal(text) | PatternSegment::Placeholder(text) => RULE_PART_WEIGHT + 2 * text.len(),
            PatternSegment::Splat => RULE_PART_WEIGHT,
        });
        RULE_WEIGHT + 2 * pattern.host.as_ref().map_or(0, String::len) + parts.sum::<usize>()
    };
    let headers = manifest.headers.iter().map(|rule| {
        let set = rule.set.iter().map(|(name, value)| RULE_PART_WEIGHT + name.len() + value.len());
        let unset = rule.unset.iter().map(|name| RULE_PART_WEIGHT + name.len());
        pattern(&rule.pattern) + set.chain(unset).sum::<usize>()
    });
    let redirects = redirects.iter().map(|rule| pattern(&rule.pattern) + rules::redirects::rule_bytes(rule));
    let guards = manifest.access.guards.iter().map(|guard| pattern(&guard.pattern) + 8 * guard.accounts.len());
    let accounts = manifest.access.accounts.iter().map(|account| account.user.len() + account.hash.len());
    let access = guards.chain(accounts).sum::<usize>();
    files.chain(headers).chain(redirects).sum::<usize>() + access + manifest.robots.weight()
}

impl FileKind {
    fn slot(encoding: Option<Encoding>) -> usize {
        match encoding {
            None => 0,
            Some(Encoding::Zstd) => 1,
            Some(Encoding::Br) => 2,
            Some(Encoding::Gzip) => 3,
        }
    }

    fn headers_with(&self, encoding: Option<Encoding>) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(CONTENT_TYPE, self.content_type.clone());
        // Placeholders, replaced by each file's own values.
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        headers.insert(ETAG, HeaderValue::from_static(""));
        headers.insert(LAST_MODIFIED, HeaderValue::from_static(""));
        headers.insert(CACHE_CONTROL, if self.is_immutable { IMMUTABLE } else { REVALIDATE });
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        // Every response gets this header; set here, it needs no reallocation there.
        headers.insert(SERVER, own::SERVER);
        // Also where there is only one form: the next deployment may have more at the same address.
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        if let Some(encoding) = encoding.or(self.encoded) {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.token()));
        }
        headers
    }
}

impl PackFile {
    pub(crate) fn forms(&self) -> &[FileForm] {
        self.forms.get_or_init(|| {
            let bodies = self.bodies.iter();
            bodies.map(|(encoding, body)| FileForm::new(self, *encoding, body.clone())).collect()
        })
    }

    /// Returns the entity tag of the decoded content, quotes included.
    pub(crate) fn decoded_etag(&self) -> HeaderValue {
        let content = self.sha256.get(..32).unwrap_or(&self.sha256);
        HeaderValue::try_from(format!("\"{content}-decoded\"")).unwrap_or(HeaderValue::from_static("\"\""))
    }

    /// Converts a manifest entry, given the time `created_at` of its deployment. Ten thousand files share a dozen kinds
    /// and few dates, hence `met`. `is_decided` tells whether fingerprints are more than a matter of spelling.
    fn new(entry: FileEntry, path: Arc<str>, is_decided: bool, created_at: i64, met: &mut ManifestTables) -> Self {
        let (is_immutable, encoded) = (entry.fingerprinted && is_decided, entry.encoded);
        let is_lent = entry.fingerprinted && is_loaded_by_pages(&entry.content_type);
        let (served, bodies) = (served_category(&entry), entry.bodies().collect());
        let date = met.date(entry.modified.map_or(created_at, |modified| modified.min(created_at)));
        let kind = met.kind(entry.content_type, is_immutable, encoded);
        Self {
            content_type: met.kinds[kind].content_type.clone(),
            sha256: entry.sha256.into_boxed_str(),
            is_lent,
            served,
            path,
            is_alone: true,
            kind,
            date,
            bodies,
            forms: OnceLock::new(),
        }
    }
}

/// Marks each file `x` with an `x.html` beside it, which takes over the address if `x` is deleted, perhaps with its
/// date.
fn mark_shared_addresses(files: &mut HashMap<Arc<str>, PackFile>) {
    let stems = files.keys().filter_map(|path| files.get_key_value(path.strip_suffix(".html")?));
    let stems: Vec<Arc<str>> = stems.map(|(stem, _)| stem.clone()).collect();
    for stem in stems {
        if let Some(file) = files.get_mut(&stem) {
            file.is_alone = false;
        }
    }
}

/// Returns whether pages load files of this media type by themselves: scripts, styles, fonts, images, programs. Files
/// that a person opens or saves come from the live deployment only.
fn is_loaded_by_pages(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    matches!(essence, "text/javascript" | "text/css" | "application/wasm" | "application/vnd.ms-fontobject")
        || essence.starts_with("image/")
        || essence.starts_with("font/")
}

/// Returns the category of a file in visit statistics, by its media type.
fn served_category(entry: &FileEntry) -> ServedKind {
    let essence = entry.content_type.split(';').next().unwrap_or_default().trim();
    match essence {
        "text/html" | "application/xhtml+xml" => ServedKind::Page { loads_parts: entry.loads_parts },
        "text/css" | "text/javascript" => ServedKind::Part,
        _ if essence.starts_with("image/") || essence.starts_with("font/") => ServedKind::Part,
        _ => ServedKind::Other,
    }
}

impl FileForm {
    fn new(file: &PackFile, encoding: Option<Encoding>, body: StoredBody) -> Self {
        let len = body.span.len;
        // The length tells apart the output of two compressor versions for the same content.
        let content = file.sha256.get(..32).unwrap_or(&file.sha256);
        let etag = match encoding {
            None => format!("\"{content}\""),
            Some(encoding) => format!("\"{content}-{}-{:x}\"", encoding.token(), len),
        };
        let etag = HeaderValue::try_from(etag).unwrap_or(HeaderValue::from_static("\"\""));
        Self { encoding, body, length: len.into(), etag }
    }

    pub(crate) fn etag(&self) -> &str {
        self.etag.to_str().unwrap_or_default()
    }
}
