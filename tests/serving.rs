//! "Serving a site" of decisions.md, over real HTTPS with both versions of HTTP.

use reqwest::{Method, Version};

use crate::world::{Edge, Site, World, answer::Answer, site::noise};

/// A world with one site, `engine`.
async fn world_with(site: Site) -> (World, String) {
    let world = World::start().await;
    let url = world.user("ada").await.publish("engine", &site).await.url;
    (world, url)
}

fn docs() -> Site {
    Site::new()
        .file("index.html", "home")
        .file("about.html", "about")
        .file("guide/index.html", "guide")
        .file("both.html", "both page")
        .file("both/index.html", "both folder")
        .file("notes.txt", "notes")
        .file("with space.html", "space")
        .file("ünï.html", "unicode")
        .file("404.html", "root not found")
        .file("guide/404.html", "guide not found")
        .file("guide/deep/page.html", "deep")
}

/// Each request over HTTP/2 and HTTP/1.1; the answers are the same.
async fn both_versions(edge: &Edge, url: &str) -> Answer {
    let new = edge.get(url).await;
    assert_eq!(new.version, Version::HTTP_2);
    let old = edge.get_http1(url).await;
    assert_eq!(old.version, Version::HTTP_11);
    assert_eq!((new.status, &new.body), (old.status, &old.body), "{url}");
    assert_eq!(new.find_header("location"), old.find_header("location"));
    assert_eq!(new.find_header("etag"), old.find_header("etag"));
    new
}

#[tokio::test]
async fn clean_urls() {
    let (world, url) = world_with(docs()).await;
    for (path, body) in [
        ("/", "home"),
        ("/about", "about"),
        ("/guide", "guide"),
        ("/guide/", "guide"),
        ("/both", "both page"),
        ("/both/", "both folder"),
        ("/notes.txt", "notes"),
        ("/guide/deep/page", "deep"),
        ("/with%20space", "space"),
        ("/%C3%BCn%C3%AF", "unicode"),
        ("/about?x=1", "about"),
    ] {
        both_versions(world.edge(), &format!("{url}{path}")).await.assert_body(200, body);
    }
}

#[tokio::test]
async fn unclean_urls_redirect_to_clean_ones() {
    let (world, url) = world_with(docs()).await;
    for (path, target) in [
        ("/about.html", "/about"),
        ("/about/", "/about"),
        ("/index.html", "/"),
        ("/guide/index.html", "/guide/"),
        ("/guide/deep/page.html", "/guide/deep/page"),
        ("/about.html?x=1&y=%20", "/about?x=1&y=%20"),
    ] {
        both_versions(world.edge(), &format!("{url}{path}")).await.assert_redirect(308, target);
    }
}

#[tokio::test]
async fn a_redirect_never_leaves_the_site() {
    let (world, url) =
        world_with(Site::page("home").file("evil.example/index.html", "x").file("evil.example.html", "y")).await;
    for path in
        ["//evil.example/index.html", "//evil.example.html", "/%2Fevil.example/index.html", "/%5Cevil.example.html"]
    {
        let answer = world.edge().get(&format!("{url}{path}")).await;
        if let Some(location) = answer.find_header("location") {
            assert!(location.starts_with('/') && !location.starts_with("//") && !location.contains('\\'), "{location}");
        }
    }
}

#[tokio::test]
async fn the_nearest_404_page_answers() {
    let (world, url) = world_with(docs()).await;
    for (path, body) in [
        ("/nothing", "root not found"),
        ("/nothing/at/all.png", "root not found"),
        ("/guide/nothing", "guide not found"),
        ("/guide/deep/nothing", "guide not found"),
        ("/guide/deep/", "guide not found"),
    ] {
        let answer = both_versions(world.edge(), &format!("{url}{path}")).await.assert_body(404, body);
        assert!(answer.header("content-type").starts_with("text/html"));
    }
}

#[tokio::test]
async fn a_single_page_app_answers_navigations_only() {
    let site = Site::page("app").file("assets/app.js", "1");
    let (world, url) = world_with(site).await;
    for path in ["/settings", "/users/42", "/settings/"] {
        world.edge().navigate(&format!("{url}{path}")).await.assert_body(200, "app");
        let script = world.edge().get(&format!("{url}{path}")).header("accept", "*/*").await.assert_status(404);
        assert!(!script.text().contains("app"));
    }
    // A missing asset is never HTML with 200, whatever asks for it in the way assets are asked for.
    let missing = world.edge().get(&format!("{url}/assets/gone.js")).header("accept", "*/*").await;
    assert_eq!(missing.status, 404);
    assert!(missing.text() != "app");
}

#[tokio::test]
async fn without_any_fallback_a_plain_404() {
    let (world, url) = world_with(Site::new().file("only.txt", "x")).await;
    for path in ["/", "/nothing", "/only"] {
        world.edge().navigate(&format!("{url}{path}")).await.assert_status(404);
    }
}

#[tokio::test]
async fn redirect_rules() {
    let rules = "# a comment\n/old /about 301\n/temp /about\n/blog/* /news/:splat 302\n/user/:id/edit /edit?who=:id 303\n\
                 /out https://elsewhere.example/x 308\n/rewrite/* /guide/index.html 200\n/about /never 301\n";
    let (world, url) = world_with(docs().file("_redirects", rules)).await;
    for (path, status, target) in [
        ("/old", 301, "/about"),
        ("/temp", 302, "/about"),
        ("/blog/2026/hello", 302, "/news/2026/hello"),
        ("/user/7/edit", 303, "/edit?who=7"),
        ("/out", 308, "https://elsewhere.example/x"),
    ] {
        both_versions(world.edge(), &format!("{url}{path}")).await.assert_redirect(status, target);
    }
    both_versions(world.edge(), &format!("{url}/rewrite/anything")).await.assert_body(200, "guide");
    for path in ["/_redirects", "/_headers", "/%5Fredirects"] {
        world.edge().get(&format!("{url}{path}")).await.assert_status(404);
    }
}

#[tokio::test]
async fn header_rules() {
    let rules = "/*\n  X-Everywhere: yes\n  X-Frame-Options: DENY\n/guide/*\n  X-Splat: :splat\n  ! X-Frame-Options\n\
                 /notes.txt\n  Cache-Control: public, max-age=60\n  Content-Type: text/markdown; charset=utf-8\n";
    let (world, url) = world_with(docs().file("_headers", rules)).await;
    let home = both_versions(world.edge(), &format!("{url}/")).await;
    assert_eq!(home.header("x-everywhere"), "yes");
    assert_eq!(home.header("x-frame-options"), "DENY");
    let deep = both_versions(world.edge(), &format!("{url}/guide/deep/page")).await;
    assert_eq!(deep.header("x-everywhere"), "yes");
    assert_eq!(deep.header("x-splat"), "deep/page");
    assert_eq!(deep.find_header("x-frame-options"), None);
    let notes = both_versions(world.edge(), &format!("{url}/notes.txt")).await;
    assert_eq!(notes.header("cache-control"), "public, max-age=60");
    assert_eq!(notes.header("content-type"), "text/markdown; charset=utf-8");
    world.edge().get(&format!("{url}/_headers")).await.assert_status(404);
}

#[tokio::test]
async fn header_rules_cannot_break_the_answer() {
    let rules = "/*\n  Content-Length: 1\n  Transfer-Encoding: chunked\n  Connection: close\n  Set-Cookie: a=b; Domain=svc.localhost\n\
                 \x20 Content-Encoding: gzip\n  Date: never\n  X-Good: 1\n";
    let (world, url) = world_with(docs().file("_headers", rules)).await;
    let answer = both_versions(world.edge(), &format!("{url}/notes.txt")).await.assert_body(200, "notes");
    assert_eq!(answer.header("x-good"), "1");
    assert_eq!(answer.find_header("content-encoding"), None);
    assert_ne!(answer.find_header("content-length"), Some("1"));
}

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

#[tokio::test]
async fn encodings_are_negotiated() {
    let text = "the same words again and again. ".repeat(400);
    let incompressible = noise(20_000);
    let (world, url) = world_with(Site::page(&text).file("noise.bin", &incompressible).file("tiny.txt", "x")).await;
    let edge = world.edge();
    for (accept, encoding) in [
        ("gzip", Some("gzip")),
        ("br", Some("br")),
        ("zstd", Some("zstd")),
        ("GZIP", Some("gzip")),
        ("gzip;q=0.5, br;q=0", Some("gzip")),
        ("gzip;q=0", None),
        ("identity", None),
        ("", None),
        ("*;q=0, gzip", Some("gzip")),
        ("deflate, compress", None),
        ("br;q=0.1, gzip;q=1.0", Some("gzip")),
        ("zstd;q=garbage, gzip", Some("gzip")),
    ] {
        let answer = edge.get(&url).header("accept-encoding", accept).await.assert_status(200);
        assert_eq!(answer.find_header("content-encoding"), encoding, "{accept:?}");
        assert_eq!(decoded(&answer), text.as_bytes(), "{accept:?}");
        assert_eq!(answer.header("content-length"), answer.body.len().to_string());
    }
    let best = edge.get(&url).header("accept-encoding", "gzip, deflate, br, zstd").await;
    assert!(best.find_header("content-encoding").is_some());
    assert_eq!(decoded(&best), text.as_bytes());
    for path in ["/noise.bin", "/tiny.txt"] {
        let answer = edge.get(&format!("{url}{path}")).header("accept-encoding", "gzip, br, zstd").await;
        assert_eq!(answer.find_header("content-encoding"), None, "{path} does not get smaller");
    }
}

fn decoded(answer: &Answer) -> Vec<u8> {
    use std::io::Read as _;
    let body = answer.body.as_ref();
    let mut plain = Vec::new();
    match answer.find_header("content-encoding") {
        None => plain.extend_from_slice(body),
        Some("gzip") => drop(flate2::read::GzDecoder::new(body).read_to_end(&mut plain).unwrap()),
        Some("br") => drop(brotli::Decompressor::new(body, 4096).read_to_end(&mut plain).unwrap()),
        Some("zstd") => plain = zstd::decode_all(body).unwrap(),
        Some(other) => panic!("{other}"),
    }
    plain
}

#[tokio::test]
async fn ranges() {
    let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let (world, url) = world_with(Site::page("x").file("data.bin", &body)).await;
    let edge = world.edge();
    let file = format!("{url}/data.bin");
    let whole = edge.get(&file).await.assert_body(200, &body);
    assert_eq!(whole.header("accept-ranges"), "bytes");
    for (range, from, to) in [
        ("bytes=0-0", 0, 0),
        ("bytes=0-99", 0, 99),
        ("bytes=99990-", 99_990, 99_999),
        ("bytes=-10", 99_990, 99_999),
        ("bytes=50000-999999", 50_000, 99_999),
        ("bytes=-999999", 0, 99_999),
    ] {
        for request in [edge.get(&file), edge.get_http1(&file)] {
            let answer = request.header("range", range).await.assert_body(206, &body[from..=to]);
            assert_eq!(answer.header("content-range"), format!("bytes {from}-{to}/100000"));
            assert_eq!(answer.header("content-length"), (to - from + 1).to_string());
        }
    }
    for unsatisfiable in ["bytes=100000-", "bytes=200000-300000", "bytes=-0"] {
        let answer = edge.get(&file).header("range", unsatisfiable).await.assert_status(416);
        assert_eq!(answer.header("content-range"), "bytes */100000");
    }
    for ignored in ["bytes=5-2", "items=0-5", "bytes", "bytes=", "bytes=a-b", "bytes=0-5,garbage"] {
        let answer = edge.get(&file).header("range", ignored).await;
        assert!(answer.status == 200 || answer.status == 416, "{ignored}: {}", answer.status);
    }
}

#[tokio::test]
async fn several_ranges_come_as_multipart() {
    let body: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let (world, url) = world_with(Site::page("x").file("data.bin", &body)).await;
    let file = format!("{url}/data.bin");
    let answer = both_ranges(world.edge(), &file, "bytes=0-4,9000-9009,-5").await.assert_status(206);
    let content_type = answer.header("content-type").to_owned();
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap().trim_matches('"').to_owned();
    let text: Vec<u8> = answer.body.to_vec();
    for (range, bytes) in [
        ("bytes 0-4/10000", &body[0..=4]),
        ("bytes 9000-9009/10000", &body[9000..=9009]),
        ("bytes 9995-9999/10000", &body[9995..]),
    ] {
        let mut part = format!("{range}\r\n\r\n").into_bytes();
        part.extend_from_slice(bytes);
        assert!(text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(&part)), "no part {range}");
    }
    assert!(
        text.ends_with(format!("\r\n--{boundary}--\r\n").as_bytes())
            || text.ends_with(format!("\r\n--{boundary}--").as_bytes())
    );
    assert_eq!(answer.header("content-length"), answer.body.len().to_string());

    // A thousand ranges, or overlapping ones, must not make a small request a large answer.
    let thousand: Vec<_> = (0..1000).map(|n| format!("{n}-")).collect();
    let greedy = world.edge().get(&file).header("range", format!("bytes={}", thousand.join(","))).await;
    assert!(greedy.body.len() <= 2 * body.len(), "{} bytes", greedy.body.len());
}

async fn both_ranges(edge: &Edge, url: &str, range: &str) -> Answer {
    let old = edge.get_http1(url).header("range", range).await;
    let new = edge.get(url).header("range", range).await;
    assert_eq!(old.status, new.status);
    new
}

#[tokio::test]
async fn if_range_guards_a_range() {
    let (world, url) = world_with(Site::page("0123456789")).await;
    let edge = world.edge();
    let first = edge.get(&url).await;
    let (etag, modified) = (first.header("etag").to_owned(), first.header("last-modified").to_owned());
    let ranged = |guard: &str| edge.get(&url).header("range", "bytes=2-4").header("if-range", guard);
    ranged(&etag).await.assert_body(206, "234");
    ranged(&modified).await.assert_body(206, "234");
    for other in ["\"other\"", &format!("W/{etag}"), "Sat, 01 Jan 2000 00:00:00 GMT", "garbage"] {
        ranged(other).await.assert_body(200, "0123456789");
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let (world, url) = world_with(docs().file("large.bin", noise(3_000_000))).await;
    for path in ["/", "/about", "/large.bin", "/nothing", "/about.html"] {
        let url = format!("{url}{path}");
        let get = world.edge().get(&url).await;
        let head = world.edge().head(&url).await;
        assert_eq!(head.status, get.status);
        assert!(head.body.is_empty());
        for name in ["content-length", "content-type", "etag", "cache-control", "location", "vary", "last-modified"] {
            assert_eq!(head.find_header(name), get.find_header(name), "{name} of {path}");
        }
    }
}

#[tokio::test]
async fn other_methods_are_405() {
    let (world, url) = world_with(docs()).await;
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS, Method::TRACE] {
        for path in ["/", "/nothing"] {
            let answer = world.edge().request(method.clone(), &format!("{url}{path}")).await.assert_status(405);
            let allow = answer.header("allow");
            assert!(allow.contains("GET") && allow.contains("HEAD"), "{allow}");
        }
    }
}

#[tokio::test]
async fn large_files_arrive_whole() {
    let body = noise(20 * 1024 * 1024);
    let (world, url) = world_with(Site::page("x").file("large.bin", &body)).await;
    let file = format!("{url}/large.bin");
    both_versions(world.edge(), &file).await.assert_body(200, &body);
    let tail = world.edge().get(&file).header("range", "bytes=20000000-20000099").await;
    tail.assert_body(206, &body[20_000_000..20_000_100]);
    let many = (0..8).map(|_| async { world.edge().get(&file).await.body.len() });
    assert!(futures_util::future::join_all(many).await.into_iter().all(|len| len == body.len()));
}

#[tokio::test]
async fn an_empty_file_is_a_file() {
    let (world, url) = world_with(Site::page("x").file("empty.txt", "")).await;
    let answer = both_versions(world.edge(), &format!("{url}/empty.txt")).await.assert_body(200, "");
    assert_eq!(answer.header("content-length"), "0");
    let ranged = world.edge().get(&format!("{url}/empty.txt")).header("range", "bytes=0-0").await;
    assert!(ranged.status == 416 || ranged.status == 200, "{}", ranged.status);
}

#[tokio::test]
async fn unknown_hosts_are_404_pages_of_ours() {
    let (world, _) = world_with(docs()).await;
    for host in ["unknown.svc.localhost", "a-b-c.share.localhost", "tmp-0123456789.svc.localhost", "x.svc.localhost"] {
        let answer = world.edge().navigate(&format!("https://{host}/")).await.assert_status(404);
        assert!(answer.header("content-type").starts_with("text/html"), "{host}");
        assert!(!answer.text().contains("root not found"), "{host}");
    }
}

#[tokio::test]
async fn a_suspended_site_is_not_served() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let url = ada.publish("engine", &Site::page("bad")).await.url;
    world.sql("UPDATE projects SET suspended_at = now()").await;
    let answer = world.edge().get(&url).await;
    assert!(answer.status == 451 || answer.status == 403, "{}", answer.status);
    assert!(!answer.text().contains("bad"));
}

#[tokio::test]
async fn plain_http_redirects() {
    let (world, url) = world_with(docs()).await;
    let plain = url.replace("https://", "http://");
    for path in ["/", "/about?x=1", "/nothing"] {
        let answer = world.edge().get(&format!("{plain}{path}")).await;
        answer.assert_redirect(308, &format!("{url}{path}"));
    }
    let secure = world.edge().get(&url).await;
    let hsts = secure.header("strict-transport-security");
    assert!(hsts.contains("max-age="), "{hsts}");
}

#[tokio::test]
async fn plain_http_can_serve() {
    let world = World::builder().set("EDGE__HTTP_MODE", "serve").start().await;
    let ada = world.user("ada").await;
    let url = ada.publish("engine", &Site::page("plain")).await.url;
    let plain = url.replace("https://", "http://");
    let answer = world.edge().get(&plain).await.assert_body(200, "plain");
    assert_eq!(answer.find_header("strict-transport-security"), None);
    ada.put("/projects/engine/password").json(&serde_json::json!({ "password": "hunter22" })).await.ok();
    world.edge().get(&plain).await.assert_redirect(308, &format!("{url}/"));
}
