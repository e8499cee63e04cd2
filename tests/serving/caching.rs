//! Caching headers and conditional requests.

use super::{both_versions, docs, world_with};
use crate::world::{Site, World, site::gzip};

#[tokio::test]
async fn caching_headers() {
    let names = "<script src=assets/app-5d41402a.js></script><link rel=stylesheet href=assets/style.3f2a9c1b.css>";
    let site =
        docs().file("assets/app-5d41402a.js", "let x;").file("assets/style.3f2a9c1b.css", "a{}").file("x.html", names);
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
    let site =
        site.file("legacy.html", "<meta charset=iso-2022-jp>").file("a.otf", "x").file("a.ts", "x").file("a.ico", "x");
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
    for (path, content_type) in [
        ("/legacy", "text/html"),
        ("/a.otf", "font/otf"),
        ("/a.ts", "video/mp2t"),
        ("/a.ico", "image/vnd.microsoft.icon"),
    ] {
        let answer = world.edge().get(&format!("{url}{path}")).await.assert_status(200);
        assert_eq!(answer.header("content-type"), content_type, "{path}");
    }
    for path in ["/a.bin", "/noextension"] {
        let answer = world.edge().get(&format!("{url}{path}")).await.assert_status(200);
        assert_eq!(answer.header("content-type"), "application/octet-stream");
    }
}

/// The sites of generators in small: what is referred to, how, and which names are not hashes.
#[tokio::test]
async fn a_fingerprint_is_decided_by_evidence() {
    let page = "<script type=module src=/assets/index-BkX3d9aQ.js></script><script src=/chunk-5QRT2ZXK.js></script>\
                <script src=/static/js/main.3f2a9c1b.js></script><link rel=stylesheet href=/_astro/p1.DuvRkl4l.css>\
                <img src=cafe2024.jpg><img src=facade2024.jpg><link href=decade80.css rel=stylesheet>\
                <audio src=acdc1980.mp3></audio><img src=assets/hero-iPhone15.png><a href=docs/a1234567.pdf>\
                <script src=main.dart.js></script><a href=app-3f2a9c1b.zip><img src=img/205e460b479e2e5b48aec07710c08d50.png>\
                <script src=/_expo/static/js/web/entry-365b1cacbdb00addcf0210f63f86955b.js></script>";
    let hashed = [
        "assets/index-BkX3d9aQ.js",
        "assets/lazy-C_7zZ-1a.js",
        "assets/index-BkX3d9aQ.js.map",
        "chunk-5QRT2ZXK.js",
        "static/js/main.3f2a9c1b.js",
        "static/js/12.42954947.chunk.js",
        "static/media/logo.c654bf0a4dcb4117785d.png",
        "_astro/p1.DuvRkl4l.css",
        "_expo/static/js/web/entry-365b1cacbdb00addcf0210f63f86955b.js",
        "assets/fonts/Ionicons.6148e7019854f3bde85b633cb88f3c25.ttf",
        "css/md5.5d41402a.css",
    ];
    let others = [
        "cafe2024.jpg",
        "facade2024.jpg",
        "decade80.css",
        "acdc1980.mp3",
        "assets/hero-iPhone15.png",
        "docs/a1234567.pdf",
        "main.dart.js",
        "app-3f2a9c1b.zip",
        "img/205e460b479e2e5b48aec07710c08d50.png",
        "assets/old-DmDZ0-yr.js",
        "assets/data.3f2a9c1b.json",
    ];
    let script = "import('./lazy-C_7zZ-1a.js'); u({12:'42954947'}[e]+'.chunk.js'); p+'static/media/logo.c654bf0a4dcb4117785d.png'; \
                  '/assets/fonts/Ionicons.6148e7019854f3bde85b633cb88f3c25.ttf'; 'md5.5d41402a.css data.3f2a9c1b.json'";
    let site = Site::page(page).file("404.html", "not found");
    let site = hashed.iter().chain(&others).fold(site, |site, path| {
        site.file(path, if *path == hashed[0] { script.to_owned() } else { format!("the content of {path}") })
    });
    let site = site
        .file("_redirects", "/embed.js /assets/index-BkX3d9aQ.js 200\n/w/* /assets/index-BkX3d9aQ.js 200\n")
        .file("_headers", "/_app/immutable/*\n  Cache-Control: public, immutable, max-age=31536000\n");
    let (world, url) = world_with(site).await;
    let caching = |path: String| {
        let (edge, url) = (world.edge(), format!("{url}/{path}"));
        async move { edge.get(&url).await.header("cache-control").to_owned() }
    };
    for path in hashed {
        assert_eq!(caching(path.to_owned()).await, "public, max-age=31536000, immutable", "{path}");
    }
    for path in others.into_iter().chain(["embed.js", "w/any-thing.js", "_app/immutable/gone.js"]) {
        assert_eq!(caching(path.to_owned()).await, "public, max-age=0, must-revalidate", "{path}");
    }
    let gone = world.edge().head(&format!("{url}/_app/immutable/gone.js")).await.assert_status(404);
    assert_eq!(gone.header("cache-control"), "public, max-age=0, must-revalidate");
}

/// What is stored compressed is sent so, or decoded to those who do not take it, and a download stays one.
#[tokio::test]
async fn files_that_are_uploaded_encoded() {
    let text = "let unity = 'an engine'; ".repeat(100);
    let (plain, packed) = (text.clone().into_bytes(), gzip(text.as_bytes()));
    let mut brotli = Vec::new();
    brotli::BrotliCompress(&mut text.as_bytes(), &mut brotli, &brotli::enc::BrotliEncoderParams::default()).unwrap();
    let site = Site::page("a game")
        .file("Build/g.loader.js", "load()")
        .file("Build/g.data.gz", &packed)
        .file("Build/g.framework.js.br", &brotli)
        .file("Build/g.wasm.br", &brotli)
        .file("img/logo.svgz", &packed)
        .file("site.js", &packed)
        .file("files/g.data.gz", &packed)
        .file("files/table.csv.gz", &packed)
        .file("files/false.js.br", "no brotli at all, as far as anybody knows")
        .file("claimed.js", "not packed")
        .file("_headers", "/site.js\n  Content-Encoding: gzip\n/claimed.js\n  Content-Encoding: gzip\n/x\n  Content-Encoding: deflate\n");
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let published = ada.upload("engine", &site).await.assert_status(201);
    let warnings = published.text();
    assert!(warnings.contains("claimed.js") && warnings.contains("br, gzip or zstd"), "{warnings}");
    for (path, encoding, content_type) in [
        ("Build/g.data.gz", "gzip", "application/octet-stream"),
        ("Build/g.framework.js.br", "br", "text/javascript"),
        ("Build/g.wasm.br", "br", "application/wasm"),
        ("img/logo.svgz", "gzip", "image/svg+xml"),
        ("site.js", "gzip", "text/javascript"),
        ("files/g.data.gz", "", "application/gzip"),
        ("files/table.csv.gz", "", "application/gzip"),
        ("files/false.js.br", "", "application/octet-stream"),
        ("claimed.js", "", "text/javascript; charset=utf-8"),
    ] {
        let url = format!("{}/{path}", world.site_url("engine"));
        for accept in ["gzip, br, zstd", "identity"] {
            let answer = world.edge().get(&url).header("accept-encoding", accept).await.assert_status(200);
            // Who does not take the coding gets what is inside.
            let is_decoded = accept == "identity" && !encoding.is_empty();
            let sent = if is_decoded { "" } else { encoding };
            assert_eq!(answer.find_header("content-encoding").unwrap_or_default(), sent, "{path} for {accept}");
            assert_eq!(answer.header("content-type"), content_type, "{path}");
            let is_stored = answer.body == packed || answer.body == brotli || encoding.is_empty();
            assert!(if is_decoded { answer.body == plain } else { is_stored }, "{path} for {accept}");
        }
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
async fn an_unchanged_file_keeps_its_date_over_deployments() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let site = ada.publish("engine", &Site::page("one").file("feed.xml", "<feed/>")).await;
    let (edge, feed) = (world.edge(), format!("{}/feed.xml", site.url));
    let date = async |url: &str| edge.get(url).await.assert_status(200).header("last-modified").to_owned();
    let (first, first_page) = (date(&feed).await, date(&site.url).await);
    assert_eq!(first, first_page);
    // Dates are whole seconds: the next upload is made in a later one.
    let second = async || {
        let now = || domain::Clock::system().now().unix_seconds();
        let begun = now();
        crate::world::eventually(crate::BACKGROUND, "the next second", async || now() > begun).await;
    };
    second().await;
    ada.deploy("engine", &Site::page("two").file("feed.xml", "<feed/>").file("new.txt", "new")).await;
    assert_eq!(date(&feed).await, first);
    edge.get(&feed).header("if-modified-since", &first).await.assert_body(304, "");
    let changed = date(&site.url).await;
    assert_ne!(changed, first);
    assert_eq!(date(&format!("{}/new.txt", site.url)).await, changed);
    second().await;
    ada.deploy("engine", &Site::page("two").file("feed.xml", "<feed>2</feed>")).await;
    assert_ne!(date(&feed).await, first);
    assert_eq!(date(&site.url).await, changed, "from one deployment to the next");
    // An earlier deployment has the dates that it had.
    ada.post(&format!("/projects/engine/deployments/{}/activate", site.id)).await.ok();
    assert_eq!((date(&feed).await, date(&site.url).await), (first, first_page));
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
