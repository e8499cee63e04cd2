//! Decides which addresses without a file are routes of a single-page site, whose script handles them.

use http::{HeaderMap, HeaderName};
use http_types::{accepts_anything, accepts_html};

use super::answer::FileRequest;

const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// `Sec-Fetch-Dest` values of requests that show a document.
const DOCUMENTS: [&str; 5] = ["document", "embed", "frame", "iframe", "object"];
/// Extensions of files that sites are made of, sorted. Other words after a dot are no extensions: `/user/john.doe`,
/// `/v1.2` and `/sites/example.com` are routes.
const EXTENSIONS: [&str; 126] = [
    "7z",
    "aac",
    "apk",
    "apng",
    "asp",
    "aspx",
    "atom",
    "avi",
    "avif",
    "bin",
    "bmp",
    "br",
    "bz2",
    "cgi",
    "cjs",
    "css",
    "csv",
    "cur",
    "dat",
    "data",
    "dmg",
    "doc",
    "docx",
    "eot",
    "epub",
    "exe",
    "flac",
    "geojson",
    "gif",
    "glb",
    "gltf",
    "gpx",
    "gz",
    "heic",
    "heif",
    "htm",
    "html",
    "ico",
    "ics",
    "jar",
    "jfif",
    "jpeg",
    "jpg",
    "js",
    "json",
    "jsonld",
    "jsp",
    "jsx",
    "jxl",
    "kml",
    "less",
    "log",
    "m3u8",
    "m4a",
    "m4v",
    "map",
    "md",
    "mjs",
    "mkv",
    "mov",
    "mp3",
    "mp4",
    "mpd",
    "mpeg",
    "mpg",
    "msi",
    "ndjson",
    "odp",
    "ods",
    "odt",
    "oga",
    "ogg",
    "ogv",
    "opus",
    "otf",
    "parquet",
    "pdf",
    "php",
    "plist",
    "png",
    "ppt",
    "pptx",
    "psd",
    "rar",
    "rdf",
    "rss",
    "rtf",
    "scss",
    "shtml",
    "sql",
    "svg",
    "svgz",
    "swf",
    "tar",
    "tgz",
    "tif",
    "tiff",
    "toml",
    "ts",
    "tsv",
    "tsx",
    "ttf",
    "txt",
    "vcf",
    "vtt",
    "wasm",
    "wav",
    "weba",
    "webm",
    "webmanifest",
    "webp",
    "wmv",
    "woff",
    "woff2",
    "xhtml",
    "xls",
    "xlsx",
    "xml",
    "xsd",
    "xsl",
    "xslt",
    "xz",
    "yaml",
    "yml",
    "zip",
    "zst",
];

/// Returns whether the single page answers a request without a file. It answers navigations, and programs that accept
/// anything (link previews, checkers, `curl`). It answers no subresource or data request, unless the script asks for
/// `text/html`, and never a name with a file extension: a script request must not receive a page.
pub(crate) fn is_route(asked: FileRequest<'_>) -> bool {
    if is_part_of_page(asked.headers) || names_file(asked) {
        return false;
    }
    // Dot names such as `/.well-known/x` are for programs, which rely on the 404.
    accepts_html(asked.headers) || (accepts_anything(asked.headers) && !asked.path.contains("/."))
}

/// Returns whether a person is likely to see the response, so that a page should report a missing file.
pub(crate) fn expects_page(asked: FileRequest<'_>) -> bool {
    let is_page = [".html", ".htm"].iter().any(|extension| asked.path.ends_with(extension));
    accepts_html(asked.headers) && (is_page || !names_file(asked))
}

/// Returns whether a browser fetches a subresource. A service worker that passes on a navigation keeps its mode; one
/// that prefetches pages sends `Accept: text/html`. A `fetch()` that accepts anything is for data and receives a 404.
fn is_part_of_page(headers: &HeaderMap) -> bool {
    let is_document = |dest: &[u8]| DOCUMENTS.iter().any(|document| document.as_bytes() == dest);
    let is_navigation = || headers.get(SEC_FETCH_MODE).is_some_and(|mode| mode == "navigate");
    headers.get_all(SEC_FETCH_DEST).iter().any(|dest| !is_document(dest.as_bytes()))
        && !(headers.get(SEC_FETCH_DEST).is_some_and(|dest| dest == "empty")
            && (is_navigation() || accepts_html(headers)))
}

/// Returns whether the last segment has a file extension. One with an encoded slash is a value of the site's script.
fn names_file(asked: FileRequest<'_>) -> bool {
    let name = asked.path.rsplit('/').next().unwrap_or_default();
    let has_encoded_slash = || {
        let name = name.to_ascii_lowercase();
        !asked.is_nameable && ["%2f", "%5c"].iter().any(|slash| name.contains(slash))
    };
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| EXTENSIONS.binary_search(&extension.as_str()).is_ok()) && !has_encoded_slash()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn asked<'r>(path: &'r str, headers: &'r HeaderMap) -> FileRequest<'r> {
        let is_nameable = !path.contains('%');
        FileRequest {
            method: &Method::GET,
            headers,
            host: "x.example",
            path,
            sent: path,
            is_nameable,
            country: None,
            granted: const { &Vec::new() },
            agent: None,
            live_guards: None,
            public_port: None,
            now: std::time::SystemTime::UNIX_EPOCH,
        }
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn extensions_are_sorted() {
        assert!(EXTENSIONS.is_sorted());
    }

    #[test]
    fn a_name_with_the_extension_of_a_file_is_no_route() {
        for accept in ["text/html", "*/*"] {
            let headers = headers(&[("accept", accept)]);
            for path in
                ["/", "/users/7", "/users/7/", "/user/john.doe", "/v1.2", "/v1.2.10", "/sites/example.com", "/a.b/c"]
            {
                assert!(is_route(asked(path, &headers)), "{path} for {accept}");
            }
            for path in ["/file/src%2Fapp.ts", "/file/src%5capp.js", "/caf%E9"] {
                assert!(is_route(asked(path, &headers)), "{path} for {accept}");
            }
            for path in [
                "/chart.js",
                "/packages/chart.JS",
                "/@me/data.json",
                "/reports/2024.pdf",
                "/gone.html",
                "/wp-login.php",
                "/a/photo.min.webp",
                "/caf%E9.png",
                "/a%2Fb/gone.css",
            ] {
                assert!(!is_route(asked(path, &headers)), "{path} for {accept}");
            }
        }
    }

    #[test]
    fn names_with_a_leading_point_are_for_programs() {
        for (accept, expected) in [("text/html", true), ("*/*", false)] {
            let headers = headers(&[("accept", accept)]);
            for path in ["/.well-known/x", "/.git/HEAD", "/.env"] {
                assert_eq!(is_route(asked(path, &headers)), expected, "{path} for {accept}");
            }
        }
    }

    #[test]
    fn a_request_says_whether_it_wants_a_page() {
        let cases: [(&[(&str, &str)], bool); 26] = [
            (&[], true),
            (&[("accept", "*/*")], true),
            (&[("accept", "")], true),
            (&[("accept", "*/*;q=0.8")], true),
            (&[("accept", "text/html")], true),
            (&[("accept", "text/html,application/xhtml+xml,*/*;q=0.8")], true),
            (&[("accept", "*/*;q=0")], false),
            (&[("accept", "text/html;q=0, */*")], false),
            (&[("accept", "application/json")], false),
            (&[("accept", "application/json, text/plain, */*")], false),
            (&[("accept", "image/avif,image/webp,*/*;q=0.8")], false),
            (&[("accept", "image/*")], false),
            (&[("accept", "*/*"), ("sec-fetch-dest", "document")], true),
            (&[("accept", "text/html"), ("sec-fetch-dest", "iframe"), ("sec-fetch-mode", "navigate")], true),
            (&[("accept", "text/html"), ("sec-fetch-dest", "frame")], true),
            (&[("accept", "*/*"), ("sec-fetch-dest", "object")], true),
            (&[("accept", "*/*"), ("sec-fetch-dest", "embed")], true),
            (&[("accept", "*/*"), ("sec-fetch-dest", "empty"), ("sec-fetch-mode", "cors")], false),
            (&[("accept", "text/html"), ("sec-fetch-dest", "empty"), ("sec-fetch-mode", "same-origin")], true),
            (&[("accept", "text/html, */*;q=0.1"), ("sec-fetch-dest", "empty"), ("sec-fetch-mode", "cors")], true),
            (&[("accept", "text/html;q=0, */*"), ("sec-fetch-dest", "empty"), ("sec-fetch-mode", "cors")], false),
            (&[("accept", "application/json"), ("sec-fetch-dest", "empty"), ("sec-fetch-mode", "cors")], false),
            (&[("accept", "text/html"), ("sec-fetch-dest", "serviceworker")], false),
            (&[("accept", "text/html"), ("sec-fetch-dest", "empty"), ("sec-fetch-mode", "navigate")], true),
            (&[("accept", "*/*"), ("sec-fetch-dest", "script")], false),
            (&[("accept", "text/html"), ("sec-fetch-dest", "image"), ("sec-fetch-mode", "navigate")], false),
        ];
        for (lines, expected) in cases {
            assert_eq!(is_route(asked("/users/7", &headers(lines))), expected, "{lines:?}");
        }
    }
}
