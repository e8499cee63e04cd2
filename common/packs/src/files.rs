//! What a file's name says of it: its type, and whether it may be cached for ever.

/// `Content-Type` of the file at `path`. Text gets a charset when it is UTF-8; what is not may say so itself.
pub(super) fn content_type(path: &str, is_utf8: bool) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let essence = match extension.as_deref() {
        _ if name == "apple-app-site-association" => "application/json",
        Some("js" | "mjs" | "cjs") => "text/javascript",
        Some("webmanifest") => "application/manifest+json",
        Some("map") => "application/json",
        Some("ico") => "image/x-icon",
        _ => mime_guess::from_path(name).first_raw().unwrap_or("application/octet-stream"),
    };
    let is_text = essence.starts_with("text/") || essence.ends_with("+xml") || essence == "application/xml";
    if is_text && is_utf8 { format!("{essence}; charset=utf-8") } else { essence.to_owned() }
}

/// Whether the file at `path` is a page, by its name.
pub(super) fn is_page(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| ["html", "htm", "xhtml"].iter().any(|page| extension.eq_ignore_ascii_case(page)))
}

/// Whether the name of the file at `path` carries a hash of its content, so that the content under this name never
/// changes. Wrong only in one direction: a hash that is not seen costs a revalidation, a word taken for a hash would
/// keep an old file in browsers for a year.
pub(super) fn is_fingerprinted(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    if matches!(extension, "html" | "htm" | "xhtml" | "xml" | "txt" | "md" | "webmanifest") {
        return false;
    }
    if IMMUTABLE_FOLDERS.iter().any(|immutable| is_within(folder, immutable)) {
        return true;
    }
    let is_code = matches!(extension, "js" | "mjs" | "css" | "map" | "wasm");
    let stem = stem.strip_suffix(".js").or(stem.strip_suffix(".css")).unwrap_or(stem); // main.3f2a9c1b.js.map
    has_hex_hash(stem)
        || ends_in_short_hash(stem, is_code && BUNDLE_FOLDERS.iter().any(|f| is_within(folder, f)), is_code)
}

/// Folders in which a framework promises that names carry hashes.
const IMMUTABLE_FOLDERS: [&str; 3] = ["_next/static", "_astro", "_app/immutable"];
/// Folders where bundlers put their output, among other files.
const BUNDLE_FOLDERS: [&str; 2] = ["assets", "_nuxt"];
/// Lengths of the hashes that tools write in hexadecimal digits.
const HEX_LENGTHS: [usize; 8] = [8, 10, 12, 16, 20, 32, 40, 64];
/// Length of the hashes that tools write in letters and digits.
const SHORT_LENGTH: usize = 8;

/// Whether `folder` is `wanted` or below it, at any depth of the site.
fn is_within(folder: &str, wanted: &str) -> bool {
    format!("/{folder}/").contains(&format!("/{wanted}/"))
}

/// Whether a part of the name is a hash in hexadecimal digits: `app.3f2a9c1b`, `main.abcdef12.chunk`.
fn has_hex_hash(stem: &str) -> bool {
    let parts: Vec<&str> = stem.split(['.', '-', '_']).collect();
    let is_uuid = parts.windows(5).any(|five| five.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]));
    !is_uuid
        && parts.iter().any(|part| {
            HEX_LENGTHS.contains(&part.len())
                && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
                && part.bytes().any(|b| b.is_ascii_digit())
                && part.bytes().any(|b| b.is_ascii_lowercase())
        })
}

/// Whether the name ends in eight letters and digits that no one would write: `index-BkX3d9aQ`, `chunk-5QRT2ZXK`.
fn ends_in_short_hash(stem: &str, is_bundle: bool, is_code: bool) -> bool {
    let Some(at) = stem.len().checked_sub(SHORT_LENGTH).filter(|&at| stem.is_char_boundary(at)) else { return false };
    let (before, hash) = stem.split_at(at);
    if !(before.is_empty() || before.ends_with(['-', '.'])) {
        return false;
    }
    let (mut upper, mut lower, mut digits) = (false, false, false);
    for b in hash.bytes() {
        match b {
            b'A'..=b'Z' => upper = true,
            b'a'..=b'z' => lower = true,
            b'0'..=b'9' => digits = true,
            b'-' | b'_' => {}
            _ => return false,
        }
    }
    match (upper, lower, digits) {
        (true, true, _) => words(hash) >= if is_bundle { 3 } else { 5 },
        (true, false, true) => is_code && words(hash) >= 3,
        _ => false,
    }
}

/// In how many words a reader would take the text apart: `MyModule2` is three, `BkX3d9aQ` seven.
fn words(text: &str) -> usize {
    #[derive(PartialEq, Clone, Copy)]
    enum Class {
        Upper,
        Lower,
        Digit,
        Mark,
    }
    let mut words = 0;
    let mut last = None;
    for b in text.bytes() {
        let class = match b {
            b'A'..=b'Z' => Class::Upper,
            b'a'..=b'z' => Class::Lower,
            b'0'..=b'9' => Class::Digit,
            _ => Class::Mark,
        };
        // A capital and the small letters after it are one word.
        if last != Some(class) && (last, class) != (Some(Class::Upper), Class::Lower) {
            words += 1;
        }
        last = Some(class);
    }
    words
}

/// Whether bytes that come in chunks are UTF-8.
#[derive(Debug, Default)]
pub(super) struct Utf8Check {
    is_broken: bool,
    /// The beginning of a character whose end is in the next chunk.
    pending: Vec<u8>,
}

impl Utf8Check {
    /// The next chunk.
    pub(super) fn update(&mut self, mut chunk: &[u8]) {
        while !self.is_broken && !self.pending.is_empty() {
            let Some((&next, rest)) = chunk.split_first() else { return };
            self.pending.push(next);
            chunk = rest;
            match std::str::from_utf8(&self.pending) {
                Ok(_) => self.pending.clear(),
                Err(error) => self.is_broken = error.error_len().is_some(),
            }
        }
        if self.is_broken {
            return;
        }
        if let Err(error) = std::str::from_utf8(chunk) {
            match error.error_len() {
                Some(_) => self.is_broken = true,
                None => self.pending = chunk[error.valid_up_to()..].to_vec(),
            }
        }
    }

    /// The verdict.
    pub(super) fn finish(self) -> bool {
        !self.is_broken && self.pending.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_hashes_are_seen() {
        for path in [
            "app.3f2a9c1b.js",
            "main.abcdef12.chunk.js",
            "static/js/main.abcdef12.chunk.js.map",
            "assets/index-BkX3d9aQ.css",
            "assets/index-DfGhJkLm.js",
            "assets/vendor-C_7zZ-1a.js",
            "images/logo.7Gk2pQ9x.png",
            "chunk-5QRT2ZXK.js",
            "_next/static/chunks/pages/_app.js",
            "docs/_next/static/css/x.css",
            "_app/immutable/entry/start.js",
            "_nuxt/BkX3d9aQ.js",
            "assets/stylesheets/main.7e37652d.min.css",
            "application-4a4d5a1d0c41c8a9ab9ac62a4e9e7c2dd5e9d3a6a9ac62a4e9e7c2dd5e9d3a61.js",
            "css/base.27e20196a850.css",
            "media/font.0ab54153eeeca0ce03978cc463b257f7.woff2",
        ] {
            assert!(is_fingerprinted(path), "{path}");
        }
    }

    #[test]
    fn names_without_hashes_are_not() {
        for path in [
            "index.html",
            "release-20240101.html",
            "app.3f2a9c1b.html",
            "release-20240101.zip",
            "report-20240101.js",
            "jquery-3.7.1.min.js",
            "bootstrap-5.3.0-alpha1.css",
            "documentation-overview.html",
            "documentation-overview.js",
            "assets/my-MyModule.js",
            "assets/app-overview.js",
            "assets/hero-iPhone15.png",
            "img/hero-iPadPro4.png",
            "underscore-1.13.1.js",
            "deadbeef.js",
            "defaced1.txt",
            "README-VERSION2.md",
            "js/VERSION2.js",
            "3f2a9c1b-1234-4abc-8def-0123456789ab.png",
            "12345678.js",
            "3f2a9c1b",
            "_static/pygments.css",
            "_static/documentation_options.js",
            "fonts/inter-SemiBold.woff2",
            "my_next/static/app.js",
            "sw.js",
            "app.3f2a9.js",
            "caf\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}.js",
        ] {
            assert!(!is_fingerprinted(path), "{path}");
        }
    }

    #[test]
    fn types() {
        for (path, utf8, wanted) in [
            ("index.html", true, "text/html; charset=utf-8"),
            ("old.html", false, "text/html"),
            ("a/app.JS", true, "text/javascript; charset=utf-8"),
            ("app.mjs", true, "text/javascript; charset=utf-8"),
            ("style.css", true, "text/css; charset=utf-8"),
            ("data.json", true, "application/json"),
            ("app.js.map", true, "application/json"),
            ("icon.svg", true, "image/svg+xml; charset=utf-8"),
            ("feed.xml", true, "text/xml; charset=utf-8"),
            ("photo.avif", false, "image/avif"),
            ("font.woff2", false, "font/woff2"),
            ("app.wasm", false, "application/wasm"),
            ("site.webmanifest", true, "application/manifest+json"),
            (".well-known/apple-app-site-association", true, "application/json"),
            ("LICENSE", true, "application/octet-stream"),
            ("x.unknown", true, "application/octet-stream"),
        ] {
            assert_eq!(content_type(path, utf8), wanted, "{path}");
        }
    }

    #[test]
    fn utf8_is_seen_across_chunks() {
        let check = |bytes: &[u8], size: usize| {
            let mut check = Utf8Check::default();
            bytes.chunks(size).for_each(|chunk| check.update(chunk));
            check.finish()
        };
        for size in 1..6 {
            assert!(check("a\u{e9}\u{20ac}\u{1f600}z".as_bytes(), size), "{size}");
            for broken in [&b"a\xe9"[..], b"\xc3\x28", b"\xf0\x9f\x98", b"\xff", b"a\xe2\x82a", b"\xc0\xae"] {
                assert!(!check(broken, size), "{} by {size}", broken.escape_ascii());
            }
        }
    }
}
