//! Files that are stored and sent compressed, with `Content-Encoding` as part of their identity.
//!
//! Recognized by name for files that programs load (`app.wasm.br`, `logo.svgz`), and by the site's `_headers` for any
//! file. A download remains one: `data.csv.gz` is saved unchanged.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::FileExt as _,
};

use percent_encoding::utf8_percent_encode;

use super::{
    Span,
    manifest::{Encoding, HeaderRule},
    rules::{
        path::{RequestPath, addresses},
        pattern::ENCODED,
    },
};

pub(super) const FIELD: &str = "content-encoding";
/// Bytes at the start of a file that are examined to recognize its encoding.
const PROBED_BYTES: usize = 16 * 1024;
/// Binary logarithm of the largest Zstandard window for decoding, in bytes: the limit of browsers (RFC 9659).
const WINDOW_LOG: u32 = 23;
/// Extensions before `.br` of files that a page loads.
const BROTLI_INNER: [&str; 7] = ["js", "mjs", "css", "wasm", "json", "svg", "data"];
/// Extensions before `.gz` of files that a page loads. All other `.gz` files are downloads.
const GZIP_INNER: [&str; 5] = ["js", "mjs", "css", "wasm", "data"];
/// Extension of the memory images of Unity programs, which are recognized only next to a loader.
const UNITY_DATA: &str = "data";

/// The encoding that a file's name claims, and the name of its content.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EncodingClaim<'p> {
    pub(super) encoding: Encoding,
    /// The path that determines the media type.
    pub(super) inner: &'p str,
}

/// Returns the claim in the name of the file at `path`. `has_loader` says whether a folder contains a Unity program.
pub(super) fn claimed(path: &str, has_loader: impl Fn(&str) -> bool) -> Option<EncodingClaim<'_>> {
    let (inner, last) = path.rsplit_once('.')?;
    let (encoding, extensions): (_, &[&str]) = match &*last.to_ascii_lowercase() {
        "svgz" => return Some(EncodingClaim { encoding: Encoding::Gzip, inner: path }),
        "br" => (Encoding::Br, &BROTLI_INNER),
        "gz" => (Encoding::Gzip, &GZIP_INNER),
        _ => return None,
    };
    let (stem, extension) = inner.rsplit_once('.').filter(|(stem, _)| !stem.is_empty() && !stem.ends_with('/'))?;
    let folder = stem.rfind('/').map_or("", |at| &stem[..at]);
    let is_loaded = extensions.contains(&extension)
        || (extension == "json" && stem.ends_with(".symbols") && encoding == Encoding::Gzip);
    let is_loaded = is_loaded && (extension != UNITY_DATA || has_loader(folder));
    is_loaded.then_some(EncodingClaim { encoding, inner })
}

pub(super) fn is_claimed(path: &str) -> bool {
    claimed(path, |_| true).is_some()
}

/// Returns the folder of the file at `path` if the file is the loader or the framework of a Unity program.
pub(super) fn unity_folder(path: &str) -> Option<&str> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let name = name.strip_suffix(".br").or_else(|| name.strip_suffix(".gz")).unwrap_or(name);
    (name.ends_with(".loader.js") || name.ends_with(".framework.js")).then_some(folder)
}

/// The rules of a site's `_headers` that set `Content-Encoding` on all hosts.
pub(super) struct EncodingRules<'r>(Vec<(&'r HeaderRule, Encoding)>);

impl<'r> EncodingRules<'r> {
    pub(super) fn from_rules(rules: &'r [HeaderRule]) -> Self {
        let said = rules.iter().filter(|rule| rule.pattern.host.is_none()).filter_map(|rule| {
            let (_, value) = rule.set.iter().find(|(name, _)| name == FIELD)?;
            Some((rule, Encoding::from_token(value)?))
        });
        Self(said.collect())
    }

    /// Returns the encoding that the last matching rule sets for any address of the file at `path`.
    pub(super) fn find_for_path(&self, path: &str) -> Option<Encoding> {
        if self.0.is_empty() {
            return None;
        }
        let addresses: Vec<String> =
            addresses(path).iter().map(|address| utf8_percent_encode(address, ENCODED).to_string()).collect();
        let addresses: Vec<RequestPath<'_>> = addresses.iter().map(|address| RequestPath::new(address)).collect();
        let is_met = |rule: &HeaderRule| addresses.iter().any(|address| rule.pattern.matches_path(address));
        self.0.iter().rev().find(|(rule, _)| is_met(rule)).map(|(_, encoding)| *encoding)
    }
}

/// Returns whether the content at `span` of `data` starts like `encoding`.
pub(super) fn is_encoded(data: &File, span: Span, encoding: Encoding) -> io::Result<bool> {
    let len = usize::try_from(span.len).unwrap_or(usize::MAX).min(PROBED_BYTES);
    let mut beginning = vec![0; len];
    data.read_exact_at(&mut beginning, span.offset)?;
    Ok(match encoding {
        Encoding::Gzip => beginning.starts_with(b"\x1f\x8b\x08"),
        Encoding::Zstd => beginning.starts_with(b"\x28\xb5\x2f\xfd"),
        Encoding::Br => is_brotli(&beginning, len as u64 == span.len),
    })
}

/// Decodes a whole `body` for a client that does not support its encoding. Returns `None` if it is not in that
/// encoding, or decodes to more than `most` bytes.
pub fn decoded(body: &[u8], encoding: Encoding, most: u64) -> Option<Vec<u8>> {
    let mut decoded = Vec::new();
    let most = most.checked_add(1)?;
    match encoding {
        Encoding::Gzip => flate2::read::MultiGzDecoder::new(body).take(most).read_to_end(&mut decoded),
        Encoding::Br => brotli::Decompressor::new(body, PROBED_BYTES).take(most).read_to_end(&mut decoded),
        Encoding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(body).ok()?;
            decoder.window_log_max(WINDOW_LOG).ok()?;
            decoder.take(most).read_to_end(&mut decoded)
        }
    }
    .ok()?;
    ((decoded.len() as u64) < most).then_some(decoded)
}

/// Returns whether data decodes as Brotli, which has no magic number.
fn is_brotli(beginning: &[u8], is_whole: bool) -> bool {
    let mut decoder = brotli::Decompressor::new(beginning, PROBED_BYTES);
    let mut decoded = [0; 1024];
    let mut bytes = 0;
    loop {
        match decoder.read(&mut decoded) {
            Ok(0) => return !beginning.is_empty(),
            Ok(read) => bytes += read,
            // A truncated beginning fails after it has decoded something.
            Err(_) => return !is_whole && bytes > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn names_say_which_files_are_loaded_encoded() {
        let claim =
            |path: &'static str| claimed(path, |folder| folder == "Build").map(|claim| (claim.encoding, claim.inner));
        for (path, encoding, inner) in [
            ("Build/g.wasm.br", Encoding::Br, "Build/g.wasm"),
            ("Build/g.data.br", Encoding::Br, "Build/g.data"),
            ("Build/g.data.gz", Encoding::Gzip, "Build/g.data"),
            ("Build/g.framework.js.gz", Encoding::Gzip, "Build/g.framework.js"),
            ("Build/g.symbols.json.br", Encoding::Br, "Build/g.symbols.json"),
            ("Build/g.symbols.json.gz", Encoding::Gzip, "Build/g.symbols.json"),
            ("app.css.br", Encoding::Br, "app.css"),
            ("img/logo.svgz", Encoding::Gzip, "img/logo.svgz"),
            ("img/LOGO.SVGZ", Encoding::Gzip, "img/LOGO.SVGZ"),
        ] {
            assert_eq!(claim(path), Some((encoding, inner)), "{path}");
        }
        for path in [
            "backup.tar.gz",
            "data.csv.gz",
            "x.svg.gz",
            "x.json.gz",
            "experiment.data.gz",
            "x.data.br",
            "notes.txt.br",
            "page.html.gz",
            "g.unityweb",
            "js.br",
            ".js.br",
            "a/.js.gz",
            "app.js",
            "br",
            "gz",
        ] {
            assert_eq!(claim(path), None, "{path}");
        }
    }

    #[test]
    fn content_is_recognized() {
        let text = b"let answer = 42; ".repeat(4_000);
        let mut br = Vec::new();
        brotli::BrotliCompress(&mut &text[..], &mut br, &brotli::enc::BrotliEncoderParams::default())
            .expect("compressed");
        let noise: Vec<u8> = (0..60_000_u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        let mut long = Vec::new();
        brotli::BrotliCompress(&mut &noise[..], &mut long, &brotli::enc::BrotliEncoderParams::default())
            .expect("compressed");
        let gzip = b"\x1f\x8b\x08\0\0\0\0\0";
        for (content, encoding, wanted) in [
            (&br[..], Encoding::Br, true),
            (&long, Encoding::Br, true),
            (&text, Encoding::Br, false),
            (b"", Encoding::Br, false),
            (gzip, Encoding::Gzip, true),
            (&text, Encoding::Gzip, false),
            (gzip, Encoding::Zstd, false),
            (b"\x28\xb5\x2f\xfd\x04\0", Encoding::Zstd, true),
        ] {
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(b"before").and_then(|()| file.write_all(content)).expect("written");
            let span = Span { offset: 6, len: content.len() as u64 };
            assert_eq!(is_encoded(&file, span, encoding).expect("read"), wanted, "{encoding:?} {}", content.len());
        }
    }

    #[test]
    fn a_coding_is_said_for_any_address_of_a_file() {
        let said = |rule: &str| {
            let file = format!("{rule}\n  Content-Encoding: gzip\n");
            crate::rules::headers::compile(file.as_bytes()).rules
        };
        for (rule, path, wanted) in [
            ("/page", "page.html", true),
            ("/page.html", "page.html", true),
            ("/page/", "page.html", true),
            ("/docs/", "docs/index.html", true),
            ("/docs", "docs/index.html", true),
            ("/docs/*", "docs/index.html", true),
            ("/", "index.html", true),
            ("/caf%C3%A9/b%20c", "café/b c.html", true),
            ("/a.js", "a.js", true),
            ("/a", "a.js", false),
            ("/pag", "page.html", false),
            ("https://h.test/page", "page.html", false),
        ] {
            let rules = said(rule);
            let found = EncodingRules::from_rules(&rules).find_for_path(path);
            assert_eq!(found.is_some(), wanted, "{rule} for {path}");
        }
        let rules =
            crate::rules::headers::compile(b"/*\n Content-Encoding: br\n/page\n Content-Encoding: gzip\n").rules;
        assert_eq!(EncodingRules::from_rules(&rules).find_for_path("page.html"), Some(Encoding::Gzip), "the last one");
    }

    #[test]
    fn a_body_is_decoded_whole_or_not_at_all() {
        let text = b"let answer = 42; ".repeat(1_000);
        let gzip = |text: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(text).and_then(|()| encoder.finish()).expect("compressed")
        };
        let mut br = Vec::new();
        brotli::BrotliCompress(&mut &text[..], &mut br, &brotli::enc::BrotliEncoderParams::default())
            .expect("compressed");
        let zstd = zstd::encode_all(&text[..], 3).expect("compressed");
        let most = text.len() as u64;
        for (encoding, body) in [(Encoding::Gzip, gzip(&text)), (Encoding::Br, br), (Encoding::Zstd, zstd)] {
            assert_eq!(decoded(&body, encoding, most).as_deref(), Some(&text[..]), "{encoding:?}");
            assert_eq!(decoded(&body, encoding, most - 1), None, "{encoding:?} is too long");
            assert_eq!(decoded(&body[..body.len() / 2], encoding, most), None, "{encoding:?} is cut");
            assert_eq!(decoded(&text, encoding, most), None, "no {encoding:?}");
        }
        let members = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(decoded(&members, Encoding::Gzip, 9).as_deref(), Some(&b"one two"[..]));
    }
}
