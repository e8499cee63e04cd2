//! Caching headers and conditional requests.

use super::{both_versions, docs, world_with};
use crate::world::{Site, World};

#[tokio::test]
async fn caching_headers() {
    let site = docs().file("assets/app-5d41402a.js", "let x;").file("assets/style.3f2a9c1b.css", "a{}");
    let (world, url) = world_with(site).await;
    for path in ["/", "/about", "/notes.txt"] {
        let answer = both_versions(world.edge(), &format!("{url}{path}")).await.assert_status(200);
        assert_eq!(answer.header("cache-control"), "public, max-age=0, must-revalidate");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert!(answer.header("vary").to_ascii_lowercase().contains("accept-encoding"));
        let etag = answer.header("etag");
        assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 10, "{etag}");
        let modified = answer.header("last-modified");
        assert!(modified.ends_with("GMT"), "{modified}");
    }
    for path in ["/assets/app-5d41402a.js", "/assets/style.3f2a9c1b.css"] {
        let answer = both_versions(world.edge(), &format!("{url}{path}")).await.assert_status(200);
        assert_eq!(answer.header("cache-control"), "public, max-age=31536000, immutable");
    }
    let missing = world.edge().get(&format!("{url}/assets/gone-5d41402a.js")).await.assert_status(404);
    assert!(!missing.find_header("cache-control").unwrap_or_default().contains("immutable"));
    assert_eq!(missing.header("x-content-type-options"), "nosniff");
}

#[tokio::test]
async fn content_types() {
    let site = Site::page("<p>").file("a.css", "a{}").file("a.js", "1").file("a.mjs", "1").file("a.json", "{}");
    let site = site.file("a.svg", "<svg/>").file("a.wasm", "\0asm").file("a.bin", "?").file("noextension", "?");
    let site = site.file("a.png", "x").file("a.woff2", "x").file("a.txt", "x").file("a.xml", "<a/>").file("a.md", "#");
    let (world, url) = world_with(site).await;
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/a.css", "text/css; charset=utf-8"),
        ("/a.js", "text/javascript; charset=utf-8"),
        ("/a.mjs", "text/javascript; charset=utf-8"),
        ("/a.svg", "image/svg+xml"),
        ("/a.wasm", "application/wasm"),
        ("/a.png", "image/png"),
        ("/a.woff2", "font/woff2"),
        ("/a.txt", "text/plain; charset=utf-8"),
    ] {
        let answer = world.edge().get(&format!("{url}{path}")).await.assert_status(200);
        assert!(answer.header("content-type").starts_with(content_type), "{path}: {}", answer.header("content-type"));
    }
    let answer = world.edge().get(&format!("{url}/a.json")).await;
    assert!(answer.header("content-type").starts_with("application/json"));
    for path in ["/a.bin", "/noextension"] {
        let answer = world.edge().get(&format!("{url}{path}")).await.assert_status(200);
        assert_eq!(answer.header("content-type"), "application/octet-stream");
    }
}

#[tokio::test]
async fn conditional_requests() {
    let (world, url) = world_with(docs()).await;
    let edge = world.edge();
    let page = format!("{url}/about");
    let first = edge.get(&page).await.assert_status(200);
    let (etag, modified) = (first.header("etag").to_owned(), first.header("last-modified").to_owned());
    let weak = format!("W/{etag}");
    let listed = format!("\"other\", {etag}");
    let weakly_listed = format!("\"a,b\",W/\"c\" , {weak}");
    for matching in [etag.as_str(), "*", &weak, &listed, &weakly_listed] {
        for request in [edge.get(&page), edge.get_http1(&page), edge.head(&page)] {
            let answer = request.header("if-none-match", matching).await.assert_body(304, "");
            assert_eq!(answer.header("etag"), etag);
            assert!(answer.find_header("cache-control").is_some());
            assert!(answer.find_header("vary").is_some());
        }
    }
    for other in ["\"other\"", "W/\"other\"", "", etag.trim_matches('"'), "\"", "garbage,,"] {
        edge.get(&page).header("if-none-match", other).await.assert_body(200, "about");
    }
    edge.get(&page).header("if-modified-since", &modified).await.assert_body(304, "");
    edge.get(&page).header("if-modified-since", "Sat, 01 Jan 2000 00:00:00 GMT").await.assert_body(200, "about");
    edge.get(&page).header("if-modified-since", "yesterday").await.assert_body(200, "about");
    // If-None-Match outweighs If-Modified-Since.
    let both = edge.get(&page).header("if-none-match", "\"other\"").header("if-modified-since", &modified);
    both.await.assert_body(200, "about");
    edge.get(&page).header("if-match", "\"other\"").await.assert_status(412);
    edge.get(&page).header("if-match", &etag).await.assert_body(200, "about");
    // A page that is not there is not "not modified".
    edge.get(&format!("{url}/nothing")).header("if-none-match", "*").await.assert_status(404);
}

#[tokio::test]
async fn an_etag_stands_for_content_and_encoding() {
    let text = "the same words again and again. ".repeat(400);
    let world = World::start().await;
    let ada = world.user("ada").await;
    let url = ada.publish("engine", &Site::page(&text)).await.url;
    let edge = world.edge();
    let mut etags = Vec::new();
    for encoding in ["identity", "gzip", "br", "zstd"] {
        etags.push(edge.get(&url).header("accept-encoding", encoding).await.header("etag").to_owned());
    }
    let distinct: std::collections::HashSet<_> = etags.iter().collect();
    assert_eq!(distinct.len(), 4, "{etags:?}");
    ada.deploy("engine", &Site::page(&text).file("more.txt", "more")).await;
    assert_eq!(
        edge.get(&url).header("accept-encoding", "br").await.header("etag"),
        etags[2],
        "the content is the same"
    );
    ada.deploy("engine", &Site::page("other")).await;
    let fresh = edge.get(&url).header("if-none-match", &etags[0]).await.assert_body(200, "other");
    assert_ne!(fresh.header("etag"), etags[0]);
}
