//! `_redirects` and `_headers`.

use super::{both_versions, docs, world_with};
use crate::{
    shares::base64,
    world::{Site, World},
};

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
async fn large_heads_come_with_and_without_a_body() {
    let value = "x".repeat(1_000);
    let fields = (0..10).map(|number| format!("  X-Large-{number}: {value}\n")).collect::<Vec<_>>().concat();
    let (world, url) = world_with(docs().file("_headers", format!("/*\n{fields}"))).await;
    let edge = world.edge();
    let answer = both_versions(edge, &format!("{url}/notes.txt")).await.assert_body(200, "notes");
    assert_eq!((answer.header("x-large-0"), answer.header("x-large-9")), (&*value, &*value));
    let address = edge.address(&format!("{url}/notes.txt"));
    for client in [&edge.browser, &edge.old_browser] {
        // More than the edge holds for one connection.
        for _ in 0..200 {
            let answer = client.head(address.clone()).send().await.unwrap();
            assert_eq!((answer.status().as_u16(), answer.headers()["x-large-9"].len()), (200, 1_000));
            assert_eq!(answer.headers()["content-length"], "5");
            assert!(answer.bytes().await.unwrap().is_empty());
        }
    }
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
async fn rules_that_lead_in_circles_are_refused_by_name() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let rules = "/ /index.html 301\n/about /about.html\n/a /b\n/b /a\n/p/:code/:name /x?code=:code&name=:name\n/* /index.html 200\n";
    let uploaded =
        ada.upload("engine", &Site::page("home").file("about.html", "about").file("_redirects", rules)).await.created();
    let warnings: Vec<_> = uploaded["warnings"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
    let wanted =
        ["1: this leads in a circle: / →", "2: this leads in a circle: /about →", "4: this leads in a circle: /a →"];
    assert_eq!(warnings.len(), wanted.len(), "{warnings:?}");
    for (warning, wanted) in warnings.iter().zip(wanted) {
        assert!(warning.starts_with(&format!("_redirects line {wanted}")), "{warning}");
    }
    let url = world.site_url("engine");
    world.edge().get(&url).await.assert_body(200, "home");
    world.edge().get(&format!("{url}/about")).await.assert_body(200, "about");
    world.edge().get(&format!("{url}/any/thing")).await.assert_body(200, "home");
    both_versions(world.edge(), &format!("{url}/a")).await.assert_redirect(302, "/b");
    both_versions(world.edge(), &format!("{url}/p/a%26b/c")).await.assert_redirect(302, "/x?code=a%26b&name=c");
}

#[tokio::test]
async fn basic_auth_of_the_live_deployment_guards_the_addresses_of_all() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let open = Site::page("home").file("s/plan.html", "plan");
    let guarded = || Site::page("home").file("_headers", "/s/*\n  Basic-Auth: ann:open-sesame\n");
    let first = ada.publish("engine", &open).await;
    let own = |id: &str| format!("{}/s/plan", world.site_url(&format!("{}--engine", id.trim_start_matches("dep_"))));
    let (edge, address) = (world.edge(), own(&first.id));
    edge.get(&address).await.assert_body(200, "plan");
    let second = ada.deploy("engine", &guarded()).await;
    let refused = both_versions(edge, &address).await.assert_status(401);
    assert_eq!(refused.header("cache-control"), "private, no-store");
    let right = format!("Basic {}", base64("ann:open-sesame"));
    edge.get(&address).header("authorization", &right).await.assert_body(200, "plan");
    // Its own rules guard it once it is not live any more, and no other.
    ada.post(&format!("/projects/engine/deployments/{}/activate", first.id)).await.ok();
    edge.get(&address).await.assert_body(200, "plan");
    edge.get(&own(&second.id)).await.assert_status(401);
}

#[tokio::test]
async fn paths_behind_basic_auth() {
    let rules = "/guide/*\n  Basic-Auth: ann:open-sesame\n";
    let site = docs().file("_headers", rules).file("_redirects", "/alias /guide/deep/page.html 200\n");
    let (world, url) = world_with(site).await;
    let right = format!("Basic {}", base64("ann:open-sesame"));
    for path in ["/guide/", "/guide/deep/page", "/guide/nothing", "/alias"] {
        let url = format!("{url}{path}");
        let refused = both_versions(world.edge(), &url).await.assert_status(401);
        assert_eq!(refused.header("www-authenticate"), "Basic realm=\"private\", charset=\"UTF-8\"");
        assert_eq!(refused.header("cache-control"), "private, no-store");
        let shown = world.edge().get(&url).header("authorization", &right).await;
        assert_eq!(shown.header("cache-control"), "private, no-store", "{path}");
        assert_ne!(shown.status, 401, "{path}");
    }
    world.edge().get(&format!("{url}/alias")).header("authorization", &right).await.assert_body(200, "deep");
    both_versions(world.edge(), &format!("{url}/about")).await.assert_body(200, "about");
    for file in world.stored_files() {
        let stored = std::fs::read(&file).unwrap();
        assert!(!stored.windows(11).any(|bytes| bytes == b"open-sesame"), "{}", file.display());
    }
}
