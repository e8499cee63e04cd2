//! Headers, conditions, encodings and ranges of a file.

use http::Request;

use super::*;

fn compressed() -> World {
    let folder = Folder::of(&["plain.bin"])
        .with("app.js", "the script as it is")
        .variant("app.js", Encoding::Zstd, "zstd script")
        .variant("app.js", Encoding::Br, "br script")
        .variant("app.js", Encoding::Gzip, "gzipped script");
    World::new(folder)
}

#[tokio::test]
async fn a_file_has_its_headers() {
    let world = World::new(Folder::of(&["a.html", "b-h4sh3d.js"]));
    let page = world.get("/a").await;
    let expected = [
        ("content-type", "text/html; charset=utf-8"),
        ("content-length", "8"),
        ("last-modified", PUBLISHED),
        ("cache-control", "public, max-age=0, must-revalidate"),
        ("x-content-type-options", "nosniff"),
        ("accept-ranges", "bytes"),
        ("vary", "Accept-Encoding"),
        ("content-encoding", ""),
    ];
    for (name, value) in expected {
        assert_eq!(page.header(name), value, "{name}");
    }
    assert!(page.header("etag").starts_with('"') && page.header("etag").ends_with('"'));
    let asset = world.get("/b-h4sh3d.js").await;
    assert_eq!(asset.header("cache-control"), "public, max-age=31536000, immutable");
    assert_ne!(asset.header("etag"), page.header("etag"));
}

#[tokio::test]
async fn each_encoding_is_a_form_of_its_own() {
    let world = compressed();
    let mut tags = std::collections::HashSet::new();
    for (accept, encoding, body) in [
        ("", "", "the script as it is"),
        ("gzip", "gzip", "gzipped script"),
        ("gzip, deflate, br, zstd", "br", "br script"),
        ("zstd;q=1, br;q=0.9", "zstd", "zstd script"),
    ] {
        let ask = || Request::get("/app.js").header("accept-encoding", accept);
        let answer = world.send(ask()).await;
        assert_eq!((answer.header("content-encoding"), answer.body.as_str()), (encoding, body));
        assert_eq!(answer.header("content-length"), body.len().to_string());
        assert_eq!(answer.header("vary"), "Accept-Encoding");
        assert!(tags.insert(answer.header("etag").to_owned()), "{accept}");

        let again = world.send(ask().header("if-none-match", answer.header("etag"))).await;
        assert_eq!((again.status.as_u16(), again.body.as_str()), (304, ""));
        for name in ["etag", "vary", "cache-control", "last-modified"] {
            assert_eq!(again.header(name), answer.header(name), "{name}");
        }
        for name in ["content-length", "content-encoding", "content-type"] {
            assert_eq!(again.header(name), "", "{name}");
        }
    }
}

#[tokio::test]
async fn conditions_are_heard() {
    let world = World::new(Folder::of(&["x"]));
    let ask = |name: &str, value: &str| Request::get("/x").header(name, value);
    for (name, value, status) in [
        ("if-modified-since", PUBLISHED, 304),
        ("if-modified-since", "Thu, 14 Jan 2027 08:00:00 GMT", 200),
        ("if-match", "\"else\"", 412),
        ("if-unmodified-since", "Thu, 14 Jan 2027 08:00:00 GMT", 412),
        ("if-none-match", "*", 304),
    ] {
        assert_eq!(world.send(ask(name, value)).await.status.as_u16(), status, "{name}: {value}");
    }
    let head = world.send(Request::head("/x").header("if-none-match", "*")).await;
    assert_eq!(head.status, 304);
}

#[tokio::test]
async fn ranges_are_parts_of_the_file_as_it_is() {
    let world = compressed();
    let ask = |range: &str| Request::get("/app.js").header("accept-encoding", "br, gzip").header("range", range);
    let answer = world.send(ask("bytes=4-9")).await;
    assert_eq!((answer.status.as_u16(), answer.body.as_str()), (206, "script"));
    assert_eq!(answer.header("content-range"), "bytes 4-9/19");
    assert_eq!(answer.header("content-length"), "6");
    assert_eq!(answer.header("content-encoding"), "");
    assert_eq!(answer.header("vary"), "Accept-Encoding");
    let identity = world.get("/app.js").await;
    assert_eq!(answer.header("etag"), identity.header("etag"));

    let beyond = world.send(ask("bytes=19-")).await;
    assert_eq!((beyond.status.as_u16(), beyond.header("content-range")), (416, "bytes */19"));
    assert_eq!(world.send(ask("bytes=-5")).await.body, "it is");
    assert_eq!(world.send(ask("bytes=x")).await.status, 200);
    let head = world.send(Request::head("/app.js").header("range", "bytes=4-9")).await;
    assert_eq!((head.status.as_u16(), head.header("content-length")), (200, "19"));

    let compressed = world.send(Request::get("/app.js").header("accept-encoding", "br")).await;
    let going_on = world.send(ask("bytes=3-").header("if-range", compressed.header("etag"))).await;
    assert_eq!((going_on.status.as_u16(), going_on.body.as_str()), (206, "script"));
    assert_eq!(going_on.header("content-encoding"), "br");
    let changed = world.send(ask("bytes=4-9").header("if-range", "\"else\"")).await;
    assert_eq!(changed.status, 200);
    let same = world.send(ask("bytes=4-9").header("if-range", identity.header("etag"))).await;
    assert_eq!(same.body, "script");
    let not_stored = world.send(ask("bytes=4-9").header("if-none-match", identity.header("etag"))).await;
    assert_eq!(not_stored.status, 304);
}

#[tokio::test]
async fn several_ranges_come_in_parts() {
    let world = World::new(Folder::default().with("x.html", "0123456789"));
    let answer = world.send(Request::get("/x").header("range", "bytes=0-1,-2")).await;
    assert_eq!(answer.status, 206);
    let kind = answer.header("content-type");
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let part = |range: &str, body: &str| {
        format!(
            "\r\n--{boundary}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Range: bytes {range}/10\r\n\r\n{body}"
        )
    };
    assert_eq!(answer.body, format!("{}{}\r\n--{boundary}--\r\n", part("0-1", "01"), part("8-9", "89")));
    assert_eq!(answer.header("content-length"), answer.body.len().to_string());
    assert_eq!(answer.header("content-range"), "");

    let many: Vec<_> = (0..1000).map(|_| "0-0").collect();
    let answer = world.send(Request::get("/x").header("range", format!("bytes={}", many.join(",")))).await;
    assert_eq!(answer.brief(), (200, "0123456789"));
}

#[tokio::test]
async fn an_empty_file_is_a_file() {
    let world = World::new(Folder::default().with("x", ""));
    let answer = world.get("/x").await;
    assert_eq!((answer.status.as_u16(), answer.header("content-length"), answer.body.as_str()), (200, "0", ""));
    let range = world.send(Request::get("/x").header("range", "bytes=0-")).await;
    assert_eq!((range.status.as_u16(), range.header("content-range")), (416, "bytes */0"));
}
