//! A pack as it is kept in memory: its files by path, each with what is its own in the headers of its answers. What many files
//! have in common is there once.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use domain::{DeploymentId, PayingAccount, traffic::agents::Agent};
use http::{
    HeaderMap, HeaderValue, Uri,
    header::{
        ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED, SERVER,
        VARY, X_CONTENT_TYPE_OPTIONS,
    },
};
use packs::{
    Encoding, FileEntry, Manifest, StoredBody,
    manifest::{Pattern, RedirectRule, Segment},
    rules::{self, robots::Robots},
};

use super::{
    cache::Bodies,
    conditional,
    copies::number,
    guards::Guards,
    header_rules::HeaderChange,
    rules::{Redirect, Rules},
    spellings::Spellings,
};
use crate::http::{self as own, Served, pages::NOSNIFF};

/// For a file that may be kept for ever: its name changes when its content does.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// Everything else may be kept, and is asked for again.
pub(crate) const REVALIDATE: HeaderValue = HeaderValue::from_static("public, max-age=0, must-revalidate");
/// Bytes that a file takes in memory beside its path, about, its place in the map of files included.
const FILE_WEIGHT: usize = 512;
/// Bytes that a form of a file takes once it was asked for, about.
const FORM_WEIGHT: usize = 400;
/// Bytes of the headers that files of one kind have in common, about, in all their forms.
const KIND_WEIGHT: usize = 6 * 1024;
/// Bytes that a date of files takes, about.
const DATE_WEIGHT: usize = 128;
/// Bytes that a rule takes beside its pattern and its fields, about.
const RULE_WEIGHT: usize = 256;
/// Bytes that a part of a pattern, or a header field, takes beside its text, about. A pattern's text is there twice.
const RULE_PART_WEIGHT: usize = 128;

/// Where the bytes of a deployment's files are: all that an answer under way holds of its pack.
pub(crate) struct PackData {
    pub(crate) id: DeploymentId,
    /// The id as a number.
    pub(crate) number: u128,
    /// The account that owned the site when the manifest was read, at whose expense bodies are.
    pub(crate) owner: PayingAccount,
    /// Where the bodies are, in memory and in the store.
    pub(crate) bodies: Arc<Bodies>,
}

/// A deployment's files.
pub(crate) struct Pack {
    pub(crate) data: Arc<PackData>,
    pub(crate) redirects: Rules<Redirect>,
    /// Whether a redirect depends on more than the path.
    pub(crate) has_conditions: bool,
    pub(crate) guards: Arc<Guards>,
    pub(crate) headers: Rules<HeaderChange>,
    single_page: Option<SinglePage>,
    robots: Robots,
    /// The dates of the files' contents; most files of a deployment share one.
    dates: Vec<Date>,
    files: HashMap<Arc<str>, File>,
    spellings: Spellings,
    kinds: Vec<Kind>,
    weight: u64,
}

/// The time since when files have had their contents.
struct Date {
    at: SystemTime,
    /// As `Last-Modified` has it.
    value: HeaderValue,
}

/// What the files of a manifest that were met so far have in common.
#[derive(Default)]
struct Met {
    kinds: Vec<Kind>,
    kind_of: HashMap<(String, bool, Option<Encoding>), usize>,
    dates: Vec<Date>,
    date_of: HashMap<i64, usize>,
}

/// Which page stands in for every address of a single-page site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SinglePage {
    /// `200.html` at the root, whether the site has 404 pages or not.
    Own,
    /// `index.html` at the root of a site without any `404.html`.
    Index,
}

/// What the files of one media type have in common that may be kept equally long: the headers of a whole 200 answer, without
/// what is each file's own. One for each form, in the order of [`Kind::slot`].
struct Kind {
    content_type: HeaderValue,
    is_immutable: bool,
    /// The coding in which the site uploaded the files.
    encoded: Option<Encoding>,
    headers: [OnceLock<HeaderMap>; 4],
}

/// One file of a pack.
pub(crate) struct File {
    /// Its media type.
    pub(crate) content_type: HeaderValue,
    /// SHA-256 of the file as it is, in hexadecimal.
    pub(crate) sha256: Box<str>,
    /// Whether it is lent to tabs that were opened before the deployment after its own.
    pub(crate) is_lent: bool,
    /// What it is to those who count visits.
    pub(crate) served: Served,
    /// Its path, without a leading slash.
    pub(crate) path: Arc<str>,
    /// Whether its address would be no other file's without it.
    pub(crate) is_alone: bool,
    /// Its place in the pack's kinds.
    kind: usize,
    /// Its place in the pack's dates.
    date: usize,
    /// What it is stored in: as it is, then the compressed ones.
    bodies: Box<[(Option<Encoding>, StoredBody)]>,
    forms: OnceLock<Box<[Form]>>,
}

/// One form in which a file can be sent.
pub(crate) struct Form {
    /// Its coding; none for the file as it is.
    pub(crate) encoding: Option<Encoding>,
    /// Its place in the pack, and what it must hash to.
    pub(crate) body: StoredBody,
    length: HeaderValue,
    etag: HeaderValue,
}

impl Pack {
    /// Of a manifest.
    pub(crate) fn new((id, owner): (DeploymentId, PayingAccount), mut manifest: Manifest, bodies: Arc<Bodies>) -> Self {
        let mut met = Met::default();
        manifest.headers = rules::headers::within_bounds(manifest.headers);
        let redirects = rules::redirects::within_bounds(manifest.take_redirects());
        let has_conditions = redirects.iter().any(|rule| !rule.conditions.is_empty());
        let weight = weight_of(&manifest, &redirects);
        let guards = Arc::new(Guards::new(std::mem::take(&mut manifest.access)));
        let created_at = manifest.created_at;
        // What was decided by spelling alone is worth a revalidation.
        let is_decided = manifest.fingerprints >= Manifest::FINGERPRINTS;
        let mut files: HashMap<_, _> = manifest
            .files
            .into_iter()
            .map(|(path, entry)| {
                let path: Arc<str> = path.into();
                let file = File::new(entry, path.clone(), is_decided, created_at, &mut met);
                (path, file)
            })
            .collect();
        mark_shared_addresses(&mut files);
        let spellings = Spellings::of(files.keys().map(|path| &**path));
        let Met { kinds, dates, .. } = met;
        Self {
            data: Arc::new(PackData { number: number(&id), id, owner, bodies }),
            redirects: Rules::new(redirects.into_iter().map(Redirect::new).collect()),
            has_conditions,
            guards,
            headers: Rules::new(
                manifest.headers.into_iter().map(|rule| (rule.pattern.clone(), HeaderChange::new(rule))).collect(),
            ),
            robots: manifest.robots.within_bounds(),
            single_page: SinglePage::of(&files),
            weight: (weight + kinds.len() * KIND_WEIGHT + dates.len() * DATE_WEIGHT + spellings.weight()) as u64,
            dates,
            files,
            spellings,
            kinds,
        }
    }

    /// The file of this path (no leading slash), or else of one that is the same text in another normal form of Unicode.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.get(path).or_else(|| self.spellings.find(path, |spelling| self.files.get(spelling)))
    }

    /// The time since when a file has had its content: the one that `Last-Modified` says.
    pub(crate) fn modified(&self, file: &File) -> Option<SystemTime> {
        self.dates.get(file.date).map(|date| date.at)
    }

    /// The coding in which a file was uploaded and is stored.
    pub(crate) fn encoding(&self, file: &File) -> Option<Encoding> {
        self.kinds.get(file.kind)?.encoded
    }

    /// The page that answers a navigation to any address without a file: the site's script knows what to show there.
    pub(crate) fn single_page(&self) -> Option<&File> {
        self.file(self.single_page?.path())
    }

    /// Whether a navigation to an address without a file is answered otherwise than anything else, although the site has 404 pages.
    pub(crate) fn has_own_single_page(&self) -> bool {
        self.single_page == Some(SinglePage::Own)
    }

    /// Whether the site's `robots.txt` asks `agent` not to take `uri`.
    pub(crate) fn disallows(&self, agent: &Agent, uri: &Uri) -> bool {
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        // What stands in its `User-Agent`, too: the name is the one that people know.
        self.robots.disallows(&[agent.name, agent.pattern.trim_matches(['^', '|', '/'])], path)
    }

    /// Bytes it takes in memory, about.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// The headers of a whole 200 answer with a form of a file.
    pub(crate) fn headers_of(&self, file: &File, form: &Form) -> HeaderMap {
        let kind = self.kinds.get(file.kind);
        let common = kind.and_then(|kind| kind.headers.get(Kind::slot(form.encoding)).map(|headers| (kind, headers)));
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

impl Met {
    /// The place of the kind of a file.
    fn kind(&mut self, content_type: String, is_immutable: bool, encoded: Option<Encoding>) -> usize {
        *self.kind_of.entry((content_type, is_immutable, encoded)).or_insert_with_key(|(text, ..)| {
            let content_type = HeaderValue::try_from(text);
            let content_type = content_type.unwrap_or(HeaderValue::from_static("application/octet-stream"));
            self.kinds.push(Kind { content_type, is_immutable, encoded, headers: Default::default() });
            self.kinds.len() - 1
        })
    }

    /// The place of a date, in seconds since 1970.
    fn date(&mut self, unix_seconds: i64) -> usize {
        *self.date_of.entry(unix_seconds).or_insert_with(|| {
            let at = conditional::instant(unix_seconds);
            let value = HeaderValue::try_from(httpdate::fmt_http_date(at)).unwrap_or(NOSNIFF);
            self.dates.push(Date { at, value });
            self.dates.len() - 1
        })
    }
}

impl SinglePage {
    fn of(files: &HashMap<Arc<str>, File>) -> Option<Self> {
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

/// Bytes that the pack of a manifest takes beside its kinds, about, once every form of every file was asked for.
fn weight_of(manifest: &Manifest, redirects: &[RedirectRule]) -> usize {
    let files = manifest.files.iter().map(|(path, file)| {
        let digests: usize = file.digests.iter().map(|hex| hex.len() / 2).sum();
        path.len() + file.sha256.len() + digests + FILE_WEIGHT + (1 + file.variants.len()) * FORM_WEIGHT
    });
    let pattern = |pattern: &Pattern| {
        let parts = pattern.segments.iter().map(|segment| match segment {
            Segment::Literal(text) | Segment::Placeholder(text) => RULE_PART_WEIGHT + 2 * text.len(),
            Segment::Splat => RULE_PART_WEIGHT,
        });
        RULE_WEIGHT + 2 * pattern.host.as_ref().map_or(0, String::len) + parts.sum::<usize>()
    };
    let headers = manifest.headers.iter().map(|rule| {
        let set = rule.set.iter().map(|(name, value)| RULE_PART_WEIGHT + name.len() + value.len());
        let unset = rule.unset.iter().map(|name| RULE_PART_WEIGHT + name.len());
        pattern(&rule.pattern) + set.chain(unset).sum::<usize>()
    });
    let redirects = redirects.iter().map(|rule| pattern(&rule.pattern) + rules::redirects::bytes_of(rule));
    let guards = manifest.access.guards.iter().map(|guard| pattern(&guard.pattern) + 8 * guard.accounts.len());
    let accounts = manifest.access.accounts.iter().map(|account| account.user.len() + account.hash.len());
    let access = guards.chain(accounts).sum::<usize>();
    files.chain(headers).chain(redirects).sum::<usize>() + access + manifest.robots.weight()
}

impl Kind {
    /// The place of a form's headers.
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
        // Each file's own take these places.
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        headers.insert(ETAG, HeaderValue::from_static(""));
        headers.insert(LAST_MODIFIED, HeaderValue::from_static(""));
        headers.insert(CACHE_CONTROL, if self.is_immutable { IMMUTABLE } else { REVALIDATE });
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        // Set on every answer anyway; from here it takes no room that each would have to make.
        headers.insert(SERVER, own::SERVER);
        // Also where there is only one form: the next deployment of the same address may have more.
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        if let Some(encoding) = encoding.or(self.encoded) {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.token()));
        }
        headers
    }
}

impl File {
    /// Its forms: as it is, then the compressed ones.
    pub(crate) fn forms(&self) -> &[Form] {
        self.forms.get_or_init(|| {
            let bodies = self.bodies.iter();
            bodies.map(|(encoding, body)| Form::new(self, *encoding, body.clone())).collect()
        })
    }

    /// The entity tag of what the file holds once decoded, quotes included.
    pub(crate) fn etag_decoded(&self) -> HeaderValue {
        let content = self.sha256.get(..32).unwrap_or(&self.sha256);
        HeaderValue::try_from(format!("\"{content}-decoded\"")).unwrap_or(HeaderValue::from_static("\"\""))
    }

    /// Of an entry of a manifest that was made at `created_at`: ten thousand files share a dozen kinds and few dates. `is_decided`
    /// tells whether fingerprints are more than spelling.
    fn new(entry: FileEntry, path: Arc<str>, is_decided: bool, created_at: i64, met: &mut Met) -> Self {
        let (is_immutable, encoded) = (entry.fingerprinted && is_decided, entry.encoded);
        let is_lent = entry.fingerprinted && is_loaded_by_pages(&entry.content_type);
        let (served, bodies) = (served(&entry), entry.bodies().collect());
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

/// Marks each file `x` beside which there is an `x.html`: when one of them goes, its address is the other's, whose date may be the same.
fn mark_shared_addresses(files: &mut HashMap<Arc<str>, File>) {
    let stems = files.keys().filter_map(|path| files.get_key_value(path.strip_suffix(".html")?));
    let stems: Vec<Arc<str>> = stems.map(|(stem, _)| stem.clone()).collect();
    for stem in stems {
        if let Some(file) = files.get_mut(&stem) {
            file.is_alone = false;
        }
    }
}

/// Whether a page loads files of this media type by itself: scripts, styles, fonts, images, programs. What a person opens or saves
/// is the deployment's that is live.
fn is_loaded_by_pages(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    matches!(essence, "text/javascript" | "text/css" | "application/wasm" | "application/vnd.ms-fontobject")
        || essence.starts_with("image/")
        || essence.starts_with("font/")
}

/// What a file is to those who count visits, by its media type.
fn served(entry: &FileEntry) -> Served {
    let essence = entry.content_type.split(';').next().unwrap_or_default().trim();
    match essence {
        "text/html" | "application/xhtml+xml" => Served::Page { loads_parts: entry.loads_parts },
        "text/css" | "text/javascript" => Served::Part,
        _ if essence.starts_with("image/") || essence.starts_with("font/") => Served::Part,
        _ => Served::Other,
    }
}

impl Form {
    fn new(file: &File, encoding: Option<Encoding>, body: StoredBody) -> Self {
        let len = body.span.len;
        // The length tells apart what two versions of a compressor made of the same content.
        let content = file.sha256.get(..32).unwrap_or(&file.sha256);
        let etag = match encoding {
            None => format!("\"{content}\""),
            Some(encoding) => format!("\"{content}-{}-{:x}\"", encoding.token(), len),
        };
        let etag = HeaderValue::try_from(etag).unwrap_or(HeaderValue::from_static("\"\""));
        Self { encoding, body, length: len.into(), etag }
    }

    /// Its entity tag, quotes included.
    pub(crate) fn etag(&self) -> &str {
        self.etag.to_str().unwrap_or_default()
    }
}
