//! The built console: the files of one folder, read into memory at startup.
//!
//! The build writes a compressed copy (`.br`) of each file, and hashes into the names of files under `_app/immutable`.
//! The documentation site is in the folder `guide`, if it was built. The console's addresses are in `pages`.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, ensure};
use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

/// The page served at every address of the console.
const PAGE: &str = "/index.html";
/// The folder of files whose names change with their content.
const IMMUTABLE: &str = "/_app/immutable/";
const VERSION: &str = "/_app/version.json";
const MOST_FILES: usize = 2_000;
/// The maximum size of a build, including compressed copies.
const MOST_BYTES: u64 = 32 * 1024 * 1024;
/// The page's `Content-Security-Policy`: nothing inline or from other hosts, and no text interpreted as script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      worker-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; \
                      require-trusted-types-for 'script'; trusted-types svelte-trusted-html console-worker";

const GUIDE: &str = "/guide/";

/// The files of the console, by path. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ConsoleFiles {
    files: Arc<HashMap<String, ConsoleFile>>,
    /// The documentation's `Content-Security-Policy`, which allows only the inline scripts that the build wrote.
    guide_policy: HeaderValue,
}

#[derive(Debug)]
struct ConsoleFile {
    content_type: &'static str,
    plain: FileEncoding,
    brotli: Option<FileEncoding>,
}

/// An encoding of a file. Each has its own entity tag, so that parts of two encodings are not combined.
#[derive(Debug)]
struct FileEncoding {
    bytes: Bytes,
    etag: HeaderValue,
}

impl ConsoleFiles {
    /// Reads a folder written by the console's build.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let mut paths = Vec::new();
        list(folder, &mut paths)?;
        let mut files = HashMap::with_capacity(paths.len());
        let (mut bytes, mut scripts) = (0, BTreeSet::new());
        for path in paths.iter().filter(|path| path.extension().is_none_or(|end| end != "br")) {
            let twin = PathBuf::from(format!("{}.br", path.display()));
            let plain = read(path)?;
            let brotli = if paths.contains(&twin) { Some(read(&twin)?) } else { None };
            bytes += (plain.len() + brotli.as_ref().map_or(0, Bytes::len)) as u64;
            ensure!(bytes <= MOST_BYTES, "the files are larger than {MOST_BYTES} bytes in all");
            let name = path.strip_prefix(folder)?.to_str().context("a file's name is not UTF-8")?;
            let name = format!("/{name}");
            if name.starts_with(GUIDE) && path.extension().is_some_and(|end| end == "html") {
                scripts.extend(inline_scripts(&String::from_utf8_lossy(&plain)));
            }
            files.insert(name, ConsoleFile::new(path, plain, brotli)?);
        }
        ensure!(files.contains_key(PAGE), "{} is not a build of the console: it has no index.html", folder.display());
        Ok(Self { files: Arc::new(files), guide_policy: HeaderValue::from_str(&guide_policy(&scripts))? })
    }

    /// Returns the page, which decides by its address what to show.
    pub fn page(&self, headers: &HeaderMap) -> Response {
        let mut response = self.files.get(PAGE).map_or_else(not_found, |page| page.answer("no-cache", headers));
        for (name, value) in [
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_FRAME_OPTIONS, "DENY"),
            (header::REFERRER_POLICY, "same-origin"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        ] {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    /// Returns the file at `path` if its name changes with its content, or the build's version, which open pages poll.
    pub fn file(&self, path: &str, headers: &HeaderMap) -> Response {
        if path == VERSION {
            return self.files.get(VERSION).map_or_else(not_found, |file| file.answer("no-cache", headers));
        }
        let file = Some(path).filter(|path| path.starts_with(IMMUTABLE)).and_then(|path| self.files.get(path));
        file.map_or_else(not_found, |file| file.answer("public, max-age=31536000, immutable", headers))
    }

    /// Returns the documentation's page or file at `path`, if it exists.
    pub fn guide(&self, path: &str, headers: &HeaderMap) -> Option<Response> {
        let index = if path.is_empty() || path.ends_with('/') { "index.html" } else { "" };
        let mut response = self.files.get(&format!("{GUIDE}{path}{index}"))?.answer("no-cache", headers);
        for (name, value) in [
            (header::CONTENT_SECURITY_POLICY, self.guide_policy.clone()),
            (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
            (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        ] {
            response.headers_mut().insert(name, value);
        }
        Some(response)
    }
}

/// Returns the hashes of a page's scripts in the form of a policy.
fn inline_scripts(page: &str) -> impl Iterator<Item = String> {
    page.split(concat!("<", "script>")).skip(1).filter_map(|rest| {
        let (script, _) = rest.split_once("</script>")?;
        Some(format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script))))
    })
}

fn guide_policy(scripts: &BTreeSet<String>) -> String {
    let scripts = scripts.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    format!(
        "default-src 'none'; script-src 'self' {scripts}; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
}

impl ConsoleFile {
    fn new(path: &Path, plain: Bytes, brotli: Option<Bytes>) -> anyhow::Result<Self> {
        let hash = URL_SAFE_NO_PAD.encode(&Sha256::digest(&plain)[..12]);
        let form = |bytes, coding| {
            let etag = HeaderValue::from_str(&format!("\"{hash}{coding}\""))?;
            anyhow::Ok(FileEncoding { bytes, etag })
        };
        let content_type = match path.extension().and_then(|end| end.to_str()) {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("json") => "application/json",
            Some("svg") => "image/svg+xml",
            Some("png") => "image/png",
            _ => "application/octet-stream",
        };
        let brotli = brotli.map(|brotli| form(brotli, "-br")).transpose()?;
        Ok(Self { content_type, plain: form(plain, "")?, brotli })
    }

    fn answer(&self, cache_control: &'static str, headers: &HeaderMap) -> Response {
        let brotli = self.brotli.as_ref().filter(|_| prefers_brotli(headers));
        let form = brotli.unwrap_or(&self.plain);
        let is_known = headers.get_all(header::IF_NONE_MATCH).into_iter().any(|known| matches_etag(known, &form.etag));
        let body = if is_known { Bytes::new() } else { form.bytes.clone() };
        let mut response = Response::new(Body::from(body));
        let answer = response.headers_mut();
        answer.insert(header::ETAG, form.etag.clone());
        answer.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache_control));
        answer.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        answer.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        answer.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if brotli.is_some() {
            answer.insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
        }
        response
    }
}

/// Returns whether the client prefers brotli to the uncompressed file (RFC 9110, section 12.5.3). Edges do not compress
/// admin's responses, so clients get the copy that the build compressed.
fn prefers_brotli(headers: &HeaderMap) -> bool {
    let (mut brotli, mut identity, mut others) = (None, None, None);
    let accepted = headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    for coding in accepted.flat_map(|value| value.split(',')) {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "br" => brotli = Some(parse_q(parameters)),
            "identity" => identity = Some(parse_q(parameters)),
            "*" => others = Some(parse_q(parameters)),
            _ => {}
        }
    }
    let brotli = brotli.or(others).unwrap_or(0.0);
    // A named coding outranks the uncompressed file if that was not mentioned.
    brotli > 0.0 && brotli >= identity.unwrap_or(0.0)
}

/// Returns the `q` of a coding: one if absent, zero if invalid.
fn parse_q(parameters: &str) -> f32 {
    let mut weights = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let Some((_, q)) = weights.find(|(name, _)| name.trim().eq_ignore_ascii_case("q")) else { return 1.0 };
    q.trim().parse().ok().filter(|q| (0.0..=1.0).contains(q)).unwrap_or(0.0)
}

/// Returns whether a list of entity tags contains this one or `*`.
fn matches_etag(list: &HeaderValue, etag: &HeaderValue) -> bool {
    let (Ok(list), Ok(etag)) = (list.to_str(), etag.to_str()) else { return false };
    list.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == etag)
}

fn not_found() -> Response {
    let mut response = Response::new(Body::from("There is no such file of the console; reload the page.\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    let headers = response.headers_mut();
    // Another admin may have the file during a version upgrade.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn list(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("admin.console: {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list(&entry.path(), found)?;
        } else {
            found.push(entry.path());
        }
        ensure!(found.len() <= MOST_FILES, "{} has more than {MOST_FILES} files", folder.display());
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Bytes> {
    Ok(fs::read(path).with_context(|| path.display().to_string())?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build() -> (tempfile::TempDir, ConsoleFiles) {
        let folder = tempfile::tempdir().unwrap();
        let assets = folder.path().join("_app/immutable");
        fs::create_dir_all(&assets).unwrap();
        for (name, text) in [
            ("index.html", "<p>"),
            ("_app/immutable/a.js", "a()"),
            ("_app/immutable/a.js.br", "br"),
            ("x", ""),
            ("guide/index.html", "<script>one()</script><script>two()</script>"),
            ("guide/a/index.html", "<h1>"),
            ("guide/a.css", "a{}"),
        ] {
            fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
            fs::write(folder.path().join(name), text).unwrap();
        }
        let files = ConsoleFiles::read(folder.path()).unwrap();
        (folder, files)
    }

    fn asking(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn hashed_names_are_kept_for_ever_and_compressed_for_who_takes_it() {
        let (_folder, files) = build();
        for (accepted, coding) in [
            ("gzip, br", Some("br")),
            ("BR ; Q=0.1", Some("br")),
            ("*", Some("br")),
            ("*;q=0.1", Some("br")),
            ("identity;q=0.5, br;q=0.5", Some("br")),
            ("br;q=0", None),
            ("br;q=0.000, *", None),
            ("br;q=0.4, identity;q=0.5", None),
            ("identity, *;q=0.5", None),
            ("br;q=2", None),
            ("br;q=NaN", None),
            ("br;q=-1", None),
            ("brotli, xbr", None),
            ("gzip", None),
            ("", None),
        ] {
            let answer = files.file("/_app/immutable/a.js", &asking(header::ACCEPT_ENCODING, accepted));
            assert_eq!(answer.status(), StatusCode::OK);
            assert_eq!(
                answer.headers().get(header::CONTENT_ENCODING).map(|c| c.to_str().unwrap()),
                coding,
                "{accepted}"
            );
            assert_eq!(answer.headers()[header::CACHE_CONTROL], "public, max-age=31536000, immutable");
        }
        for other in ["/x", "/index.html", "/_app/immutable/b.js", "/_app/immutable/a.js.br"] {
            assert_eq!(files.file(other, &HeaderMap::new()).status(), StatusCode::NOT_FOUND, "{other}");
        }
    }

    #[test]
    fn the_page_is_asked_for_anew_and_allows_nothing_inline() {
        let (_folder, files) = build();
        let first = files.page(&HeaderMap::new());
        assert_eq!(first.headers()[header::CACHE_CONTROL], "no-cache");
        assert!(!first.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().contains("unsafe"));
        let etag = first.headers()[header::ETAG].clone();
        let again = files.page(&HeaderMap::from_iter([(header::IF_NONE_MATCH, etag)]));
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    }

    #[test]
    fn the_guide_runs_the_scripts_it_was_built_with_and_no_others() {
        let (_folder, files) = build();
        for (path, of) in [("", "text/html"), ("a/", "text/html"), ("a.css", "text/css")] {
            let answer = files.guide(path, &HeaderMap::new()).unwrap();
            assert_eq!(answer.status(), StatusCode::OK, "{path}");
            assert!(answer.headers()[header::CONTENT_TYPE].to_str().unwrap().starts_with(of), "{path}");
            let policy = answer.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert_eq!((policy.matches("'sha256-").count(), policy.contains("unsafe")), (2, false), "{policy}");
        }
        for other in ["b/", "a", "../index.html", "/index.html", "../_app/immutable/a.js"] {
            assert!(files.guide(other, &HeaderMap::new()).is_none(), "{other}");
        }
    }

    #[test]
    fn every_form_has_an_entity_tag_of_its_own() {
        let (_folder, files) = build();
        let ask = |accepted: &'static str, known: &str| {
            let mut headers = asking(header::ACCEPT_ENCODING, accepted);
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(known).unwrap());
            files.file("/_app/immutable/a.js", &headers)
        };
        let tag = |accepted| ask(accepted, "\"\"").headers()[header::ETAG].to_str().unwrap().to_owned();
        let (plain, brotli) = (tag(""), tag("br"));
        assert_ne!(plain, brotli);
        for (accepted, own, other) in [("", &plain, &brotli), ("br", &brotli, &plain)] {
            for known in [own.clone(), format!("W/{own}"), format!("{other} , {own}"), "*".to_owned()] {
                let answer = ask(accepted, &known);
                assert_eq!(answer.status(), StatusCode::NOT_MODIFIED, "{accepted} {known}");
                assert_eq!(answer.headers()[header::ETAG], own.as_str());
                assert!(!answer.headers().contains_key(header::CONTENT_ENCODING));
            }
            assert_eq!(ask(accepted, other).status(), StatusCode::OK, "{accepted}");
        }
    }

    #[test]
    fn a_folder_without_a_page_is_no_console() {
        let folder = tempfile::tempdir().unwrap();
        assert!(ConsoleFiles::read(folder.path()).unwrap_err().to_string().contains("no index.html"));
        assert!(ConsoleFiles::read(&folder.path().join("away")).is_err());
    }
}
