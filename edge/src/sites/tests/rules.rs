//! `_redirects` and `_headers` at work.

use domain::site::Gate;
use http::Request;

use super::*;

#[tokio::test]
async fn redirects_come_before_files() {
    let folder = Folder::of(&["index.html", "old.html", "new.html", "app/index.html", "app/main.js", "404.html"])
        .redirects(
            "/old.html /new 301\n/home / 302\n/blog/* https://blog.example:8443/:splat 308\n/u/:name /users?name=:name\n\
             /app/* /app/index.html 200\n/alias /new 200\n/broken /nowhere 200\n/same/* /same/:splat 301\n/away/* /:splat\n\
             /top /new#part 303\n/nothing-h4sh3d.js /new 307\n",
        );
    let world = World::new(folder);
    for (target, expected) in [
        ("/old.html", (301, "/new")),
        ("/old.html?a=1", (301, "/new?a=1")),
        ("/home", (302, "/")),
        ("/blog/2026/%C3%A9?x=y", (308, "https://blog.example:8443/2026/%C3%A9?x=y")),
        ("/u/ann", (302, "/users?name=ann")),
        ("/u/a%26b?q=1", (302, "/users?name=a&b")),
        ("/app/users/7", (200, "<app/index.html>")),
        ("/app/main.js", (200, "<app/main.js>")),
        ("/app/index.html", (308, "/app/")),
        ("/alias", (200, "<new.html>")),
        ("/broken", (404, "<404.html>")),
        ("/same/x", (404, "<404.html>")),
        ("/away//evil.example", (302, "/evil.example")),
        ("/away/%2Fevil.example", (400, "our page")),
        ("/away/https://evil.example", (302, "/https://evil.example")),
        ("/top?a", (303, "/new?a#part")),
    ] {
        assert_eq!(world.get(target).await.brief(), expected, "{target}");
    }
}

#[tokio::test]
async fn an_open_tab_goes_before_a_rewrite() {
    let world = World::new(Folder::of(&["index.html"]).redirects("/assets/* /index.html 200"));
    *world.shelf.recent.lock().unwrap() = vec![world.publish(Folder::of(&["assets/app-h4sh3d1.js"]))];
    assert_eq!(world.get("/assets/app-h4sh3d1.js").await.body, "<assets/app-h4sh3d1.js>");
    assert_eq!(world.get("/assets/other").await.body, "<index.html>");
}

#[tokio::test]
async fn headers_are_set_on_whatever_is_a_file() {
    let folder = Folder::of(&["index.html", "404.html", "a.js"]).redirects("/r /").headers(
        "/*\n X-Frame-Options: DENY\n Vary-By: x\n/a.js\n X-Frame-Options: SAMEORIGIN\n Cache-Control: public, max-age=60\n\
         /missing/:what\n X-What: :what\n",
    );
    let mut world = World::new(folder);
    assert_eq!(world.get("/").await.header("x-frame-options"), "DENY");
    let script = world.get("/a.js").await;
    let values: Vec<_> = script.headers.get_all("x-frame-options").iter().collect();
    assert_eq!(values, ["DENY", "SAMEORIGIN"]);
    assert_eq!(script.header("cache-control"), "public, max-age=60");
    let unchanged = world.send(Request::get("/").header("if-none-match", "*")).await;
    assert_eq!((unchanged.status.as_u16(), unchanged.header("x-frame-options")), (304, "DENY"));
    let part = world.send(Request::get("/a.js").header("range", "bytes=0-0")).await;
    assert_eq!((part.status.as_u16(), part.header("x-frame-options")), (206, "DENY"));
    let missing = world.get("/missing/thing").await;
    assert_eq!((missing.status.as_u16(), missing.header("x-what")), (404, "thing"));
    assert_eq!(world.get("/r").await.header("x-frame-options"), "");

    // What a site says of caching does not open its gate.
    world.site.gate = Gate::Org(domain::OrgId::new(now()));
    assert_eq!(world.get("/a.js").await.header("cache-control"), "private, no-store");
}
