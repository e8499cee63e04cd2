//! `_redirects` and `_headers`.

use super::{both_versions, docs, world_with};

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
