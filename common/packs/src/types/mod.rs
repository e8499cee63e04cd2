//! Media types of files, from one table by extension, and their charset if it is known.

mod charset;

use std::{collections::HashMap, sync::LazyLock};

pub(super) use charset::CharsetCheck;

/// The type of files that are only downloaded by name.
pub(super) const UNKNOWN: &str = "application/octet-stream";

/// A table with a type on each line, followed by its extensions.
const TABLE: &str = include_str!("types.txt");

static BY_EXTENSION: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let rows = lines.flat_map(|line| {
        let mut words = line.split(' ');
        let essence = words.next().unwrap_or(UNKNOWN);
        words.map(move |extension| (extension, essence))
    });
    rows.collect()
});

/// Returns the media type of the file at `path`, without parameters.
pub(super) fn essence(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    if name == "apple-app-site-association" {
        return "application/json";
    }
    let Some((_, extension)) = name.rsplit_once('.') else { return UNKNOWN };
    BY_EXTENSION.get(&*extension.to_ascii_lowercase()).copied().unwrap_or(UNKNOWN)
}

/// Returns the `Content-Type` of a file of type `essence`. Text that is known to be UTF-8 gets a charset; for other
/// text the header would override the text's own declaration.
pub(super) fn content_type(essence: &str, is_utf8: bool) -> String {
    let has_charset = essence.starts_with("text/")
        || essence.ends_with("+xml")
        || matches!(essence, "application/xml" | "application/xml-dtd" | "application/sql");
    if has_charset && is_utf8 { format!("{essence}; charset=utf-8") } else { essence.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// The types of mime-db: source, type, extensions.
    const MIME_DB: &str = include_str!("mime-db.txt");

    /// Extensions with another type than in the registry, and the reasons.
    const DEVIATIONS: [(&str, &str); 6] = [
        // RFC 6350; mime-db has another extension for it.
        ("vcf", "text/vcard"),
        // RFC 9239: scripts have one type, the only one that every browser accepts for a module.
        ("cjs", "text/javascript"),
        // The registered type is that of a service's documents, which nobody publishes; the file is Rust source code.
        ("rs", "text/x-rust"),
        // RFC 9512; mime-db lacks its extensions.
        ("yaml", "application/yaml"),
        ("yml", "application/yaml"),
        // A QuickTime audio book or song, for which browsers need the audio type.
        ("m4p", "audio/mp4"),
    ];
    /// Unregistered types that every browser knows or that source code is shown by; mime-db has others.
    const UNREGISTERED: [&str; 18] = [
        "ecma", "jsx", "flac", "aif", "aiff", "aifc", "jfif", "wav", "bdf", "c", "cc", "cpp", "cxx", "h", "hh", "s",
        "asm", "tgz",
    ];

    #[test]
    fn the_table_says_what_iana_says_and_else_what_mime_db_says() {
        let mut registered: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut known: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for line in MIME_DB.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            for extension in &words[2..] {
                let types = if words[0] == "iana" { &mut registered } else { &mut known };
                types.entry(extension).or_default().insert(words[1]);
            }
        }
        let mut wrong = Vec::new();
        for extension in registered.keys().chain(known.keys()).collect::<BTreeSet<_>>() {
            let ours = essence(&format!("x.{extension}"));
            let is_deviation = DEVIATIONS.contains(&(extension, ours));
            let expected = registered.get(extension).or_else(|| known.get(extension));
            let is_known =
                expected.is_some_and(|types| types.contains(ours) || (types.contains(UNKNOWN) && ours == UNKNOWN));
            let is_common = UNREGISTERED.contains(extension) && !registered.contains_key(extension);
            if !is_known && !is_deviation && !is_common {
                wrong.push(format!("{extension}: {ours}, not {expected:?}"));
            }
        }
        assert!(registered.len() > 800 && known.len() > 300, "{} {}", registered.len(), known.len());
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn each_extension_is_in_the_table_once() {
        let rows = TABLE.lines().filter(|line| !line.starts_with('#')).flat_map(|line| line.split(' ').skip(1));
        let mut seen = BTreeSet::new();
        let doubled: Vec<&str> = rows.filter(|extension| !seen.insert(*extension)).collect();
        assert_eq!(doubled, Vec::<&str>::new());
        assert!(seen.len() > 1_400, "{}", seen.len());
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
            ("icon.svgz", false, "image/svg+xml"),
            ("feed.xml", true, "text/xml; charset=utf-8"),
            ("feed.rss", true, "application/rss+xml; charset=utf-8"),
            ("notes.md", true, "text/markdown; charset=utf-8"),
            ("photo.avif", false, "image/avif"),
            ("photo.jxl", false, "image/jxl"),
            ("favicon.ico", false, "image/vnd.microsoft.icon"),
            ("font.woff2", false, "font/woff2"),
            ("font.woff", false, "font/woff"),
            ("font.otf", false, "font/otf"),
            ("font.ttf", false, "font/ttf"),
            ("font.eot", false, "application/vnd.ms-fontobject"),
            ("part-1.ts", false, "video/mp2t"),
            ("list.m3u8", true, "application/vnd.apple.mpegurl"),
            ("list.mpd", true, "application/dash+xml; charset=utf-8"),
            ("film.mp4", false, "video/mp4"),
            ("song.m4a", false, "audio/mp4"),
            ("song.flac", false, "audio/flac"),
            ("tool.rpm", false, "application/x-redhat-package-manager"),
            ("tool.tgz", false, "application/gzip"),
            ("data.csv.gz", false, "application/gzip"),
            ("part.stl", false, "model/stl"),
            ("scene.glb", false, "model/gltf-binary"),
            ("app.wasm", false, "application/wasm"),
            ("site.webmanifest", true, "application/manifest+json"),
            ("tool.py", true, "text/plain; charset=utf-8"),
            (".well-known/apple-app-site-association", true, "application/json"),
            ("LICENSE", true, UNKNOWN),
            ("x.unknown", true, UNKNOWN),
        ] {
            assert_eq!(content_type(essence(path), utf8), wanted, "{path}");
        }
    }
}
