//! Which file a path maps to, and the response when there is none.

use domain::{
    Timestamp,
    site::{SiteGate, SiteKind, Suspension},
};
use http::Request;

use super::*;

#[tokio::test]
async fn paths_become_files_or_cleaner_paths() {
    let cases: [(&[&str], &str, (u16, &str)); 70] = [
        (&["x"], "/x", (200, "<x>")),
        (&["x.html"], "/x", (200, "<x.html>")),
        (&["x/index.html"], "/x", (308, "/x/")),
        (&["x/index.html"], "/x?a=1&b=%20", (308, "/x/?a=1&b=%20")),
        (&["x/y/index.html"], "/x/y", (308, "/x/y/")),
        (&["x/y.html"], "/x", (404, NO_SUCH_FILE)),
        (&["x", "x.html", "x/index.html"], "/x", (200, "<x>")),
        (&["x.html", "x/index.html"], "/x", (200, "<x.html>")),
        (&["x/index.html"], "/x/", (200, "<x/index.html>")),
        (&["x.html", "x/index.html"], "/x/", (200, "<x/index.html>")),
        (&["x.html"], "/x/", (308, "/x")),
        (&["x.html"], "/x/?a=1&b=%20", (308, "/x?a=1&b=%20")),
        (&["x", "x.html"], "/x/", (404, NO_SUCH_FILE)),
        (&["x"], "/x/", (404, NO_SUCH_FILE)),
        (&["x.html"], "/x//", (308, "/x")),
        (&["x/index.html"], "/x//", (308, "/x/")),
        (&["x/y.html"], "/x//y", (308, "/x/y")),
        (&["x/y.html"], "/x///y.html?a", (308, "/x/y?a")),
        (&["x/y.html"], "/x//z", (404, NO_SUCH_FILE)),
        (&["x.html"], "/x.html", (308, "/x")),
        (&["x.html"], "/x.html?a=1", (308, "/x?a=1")),
        (&["x.html"], "/x%2ehtml", (308, "/x")),
        (&["x", "x.html"], "/x.html", (200, "<x.html>")),
        (&["x.html", "x/index.html"], "/x.html", (308, "/x")),
        (&["x/index.html"], "/x.html", (404, NO_SUCH_FILE)),
        (&["index.html"], "/", (200, "<index.html>")),
        (&["index.html"], "/index.html", (308, "/")),
        (&["index.html"], "/index.html?a", (308, "/?a")),
        (&["index.html"], "/index", (308, "/")),
        (&["index.html"], "/index?a", (308, "/?a")),
        (&["index.html"], "/index/", (308, "/")),
        (&["index"], "/index", (200, "<index>")),
        (&["index", "index.html"], "/index", (200, "<index>")),
        (&["index.html", "index/index.html"], "/index", (308, "/index/")),
        (&["index.html", "index/index.html"], "/index/", (200, "<index/index.html>")),
        (&["x/index.html"], "/x/index.html", (308, "/x/")),
        (&["x", "x/index.html"], "/x/index.html", (308, "/x/")),
        (&["x.html", "x/index.html"], "/x/index.html", (308, "/x/")),
        (&["x/index.html"], "/x/index", (308, "/x/")),
        (&["x/index.html"], "/x/index/", (308, "/x/")),
        (&["x/index", "x/index.html"], "/x/index", (200, "<x/index>")),
        (&["x/index.html", "x/index/index.html"], "/x/index", (308, "/x/index/")),
        (&["x/index.html", "x/index/y.html"], "/x/index/y", (200, "<x/index/y.html>")),
        (&["xindex.html"], "/xindex", (200, "<xindex.html>")),
        (&["xindex.html"], "/xindex.html", (308, "/xindex")),
        (&[".html"], "/.html", (200, "<.html>")),
        (&["a/.html"], "/a/.html", (200, "<a/.html>")),
        (&["x.html.html"], "/x.html", (200, "<x.html.html>")),
        (&["x.html.html"], "/x.html.html", (308, "/x.html")),
        (&["x.html", "x.html.html"], "/x.html.html", (200, "<x.html.html>")),
        (&["x.html/index.html"], "/x.html", (308, "/x.html/")),
        (&["é à.html"], "/%C3%A9%20%C3%A0.html", (308, "/%C3%A9%20%C3%A0")),
        (&["a b/index.html"], "/a%20b/index.html", (308, "/a%20b/")),
        (&["a b/index.html"], "/a%20b", (308, "/a%20b/")),
        (&["é?#/index.html"], "/%C3%A9%3F%23?a", (308, "/%C3%A9%3F%23/?a")),
        (&["%2e%2e/index.html"], "/%252e%252e", (308, "/%252e%252e/")),
        (&["100%25.html"], "/100%2525", (200, "<100%25.html>")),
        (&[".well-known/x"], "/.well-known/x", (200, "<.well-known/x>")),
        (&["x.html"], "//x", (308, "/x")),
        (&["x.html"], "//x.html", (308, "/x")),
        (&["x.html"], "//x/", (308, "/x")),
        (&["x.example/index.html"], "//x.example", (308, "/x.example/")),
        (&["x.example/index.html"], "///x.example//", (308, "/x.example/")),
        (&["index.html"], "//", (308, "/")),
        (&["x.html"], "//", (404, NO_SUCH_FILE)),
        (&["cafe\u{301}.txt"], "/caf%C3%A9.txt", (200, "<cafe\u{301}.txt>")),
        (&["caf\u{e9}.html"], "/cafe%CC%81", (200, "<caf\u{e9}.html>")),
        (&["caf\u{e9}/index.html"], "/cafe%CC%81", (308, "/cafe%CC%81/")),
        (&["caf\u{e9}", "cafe\u{301}"], "/cafe%CC%81", (200, "<cafe\u{301}>")),
        (&["caf\u{e9}", "cafe\u{301}"], "/caf%C3%A9", (200, "<caf\u{e9}>")),
    ];
    for (paths, target, expected) in cases {
        let answer = World::new(Folder::of(paths)).get(target).await;
        assert_eq!(answer.brief(), expected, "{target} in {paths:?}");
    }
}

#[tokio::test]
async fn redirects_to_the_clean_form_arrive() {
    let every_combination = ["x", "x.html", "x/index.html", "index.html", "x.html.html", "x/x.html"];
    for chosen in 0..1_u32 << every_combination.len() {
        let paths: Vec<_> = every_combination
            .iter()
            .enumerate()
            .filter(|(at, _)| chosen >> at & 1 == 1)
            .map(|(_, path)| *path)
            .collect();
        let world = World::new(Folder::of(&paths));
        for path in every_combination {
            let first = world.get(&format!("/{path}")).await;
            if first.status == 308 {
                let second = world.get(first.header("location")).await;
                // A folder's address has a slash that its name lacks.
                let file = if paths.contains(&path) { path.to_owned() } else { format!("{path}/index.html") };
                assert_eq!(second.brief(), (200, &*format!("<{file}>")), "/{path} in {paths:?}");
            } else if paths.contains(&path) {
                assert_eq!(first.brief(), (200, &*format!("<{path}>")), "in {paths:?}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_missing_gets_the_nearest_404_page() {
    let world = World::new(Folder::of(&["index.html", "404.html", "a/404.html", "a/b/c.html"]));
    for (target, expected) in [
        ("/x", "<404.html>"),
        ("/a", "<404.html>"),
        ("/a/", "<a/404.html>"),
        ("/a/x.js", "<a/404.html>"),
        ("/a/b/x/y/z", "<a/404.html>"),
        ("/ab/x", "<404.html>"),
        ("//a/x", "<404.html>"),
    ] {
        let answer = world.navigate(target).await;
        assert_eq!(answer.brief(), (404, expected), "{target}");
    }
    let conditional = Request::get("/x").header("if-none-match", "*").header("range", "bytes=0-1");
    let answer = world.send(conditional).await;
    assert_eq!(answer.brief(), (404, "<404.html>"));
    for absent in ["etag", "last-modified", "accept-ranges", "content-range"] {
        assert_eq!(answer.header(absent), "", "{absent}");
    }
    assert_eq!(world.get("/404.html").await.brief(), (308, "/404"));
}

#[tokio::test]
async fn a_single_page_site_answers_navigations_only() {
    let world = World::new(Folder::of(&["index.html", "app.js"]));
    let answer = world.navigate("/users/7?tab=1").await;
    assert_eq!(answer.brief(), (200, "<index.html>"));
    assert!(answer.headers.get_all("vary").iter().any(|vary| vary == "Accept"));
    assert_eq!(world.navigate("/users/john.doe").await.brief(), (200, "<index.html>"));
    assert_eq!(world.get("/users/7").await.brief(), (200, "<index.html>"), "whoever names nothing takes anything");
    for (name, value) in [("accept", "application/json"), ("sec-fetch-dest", "empty"), ("sec-fetch-dest", "script")] {
        let answer = world.send(Request::get("/users/7").header(name, value)).await;
        assert_eq!(answer.brief(), (404, NO_SUCH_FILE), "{name}: {value}");
    }
    assert_eq!(world.navigate("/missing.js").await.brief(), (404, NO_SUCH_FILE));
    assert_eq!(world.navigate("/assets/missing-h4sh3d.CSS").await.brief(), (404, NO_SUCH_FILE));
    let head = world.send(Request::head("/users/7").header("accept", "text/html")).await;
    assert_eq!((head.status.as_u16(), head.header("content-length"), head.body.as_str()), (200, "12", ""));

    let elsewhere = World::new(Folder::of(&["index.html", "docs/404.html"]));
    assert_eq!(elsewhere.navigate("/users/7").await.brief(), (404, "our page"), "it has a 404.html somewhere");
    let without = World::new(Folder::of(&["home.html"]));
    assert_eq!(without.navigate("/users/7").await.brief(), (404, "our page"));
}

#[tokio::test]
async fn a_200_page_answers_navigations_before_all_others() {
    let world = World::new(Folder::of(&["index.html", "200.html", "404.html", "a/404.html", "app.js"]));
    for target in ["/users/7?tab=1", "/users/john.doe", "/a/x", "/nothing/"] {
        let answer = world.navigate(target).await;
        assert_eq!(answer.brief(), (200, "<200.html>"), "{target}");
        assert!(
            answer.headers.get_all("vary").iter().any(|vary| vary == "Accept") && !answer.header("etag").is_empty()
        );
        let other = world.send(Request::get(target).header("sec-fetch-dest", "empty")).await;
        assert_eq!(other.brief(), (404, if target == "/a/x" { "<a/404.html>" } else { "<404.html>" }), "{target}");
        assert!(other.headers.get_all("vary").iter().any(|vary| vary == "Accept"), "{target}");
    }
    assert_eq!(world.navigate("/missing.js").await.brief(), (404, "<404.html>"));
    assert_eq!(world.navigate("/").await.brief(), (200, "<index.html>"));
    assert_eq!(world.navigate("/200").await.brief(), (200, "<200.html>"));
    assert_eq!(world.get("/200.html").await.brief(), (308, "/200"));

    let alone = World::new(Folder::of(&["200.html"]));
    assert_eq!(alone.navigate("/").await.brief(), (200, "<200.html>"));
    assert_eq!(alone.get("/users/7").await.brief(), (200, "<200.html>"));
    let deeper = World::new(Folder::of(&["a/200.html", "index.html", "404.html"]));
    assert_eq!(deeper.navigate("/a/x").await.brief(), (404, "<404.html>"), "only at the root");
}

#[tokio::test]
async fn only_get_head_and_options() {
    let world = World::new(Folder::of(&["x"]));
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"] {
        let answer = world.send(Request::builder().method(method).uri("/x")).await;
        assert_eq!((answer.status.as_u16(), answer.header("allow")), (405, "GET, HEAD, OPTIONS"), "{method}");
    }
    for target in ["/x", "/missing", "/%zz", "/x/"] {
        let (get, head) = (world.get(target).await, world.send(Request::head(target)).await);
        assert_eq!((get.status, &get.headers), (head.status, &head.headers), "{target}");
        assert_eq!(head.body, "");
    }
}

/// Paths that no file can have, among them those that would lead out of a folder.
const UNNAMEABLE: [&str; 14] = [
    "/%zz",
    "/%00",
    "/a%2fb",
    "/a%2Fb",
    "/a%5cb",
    "/../a/b",
    "/a/../a/b",
    "/a/%2e%2e/a/b",
    "/..%2fa%2fb",
    "/..%5c..%5ca",
    "/a%0d%0ab",
    "/caf%E9",
    "/%c0%af",
    "/%ff",
];

#[tokio::test]
async fn what_cannot_be_a_file_gets_the_404_page_of_the_site() {
    let world = World::new(Folder::of(&["index.html", "404.html", "a/b", "a/404.html"]));
    for target in UNNAMEABLE {
        let expected = if target.starts_with("/a/") { "<a/404.html>" } else { "<404.html>" };
        assert_eq!(world.get(target).await.brief(), (404, expected), "{target}");
        assert_eq!(world.navigate(target).await.brief(), (404, expected), "{target}");
    }
    let bare = World::new(Folder::of(&["a/b"]));
    for target in UNNAMEABLE {
        assert_eq!(bare.get(target).await.brief(), (404, NO_SUCH_FILE), "{target}");
        assert_eq!(bare.navigate(target).await.brief(), (404, "our page"), "{target}");
    }
    assert_eq!(world.get(&format!("/{}", "x".repeat(60_000))).await.status, 414);
}

#[tokio::test]
async fn what_cannot_be_a_file_is_a_route_of_a_single_page_site() {
    let world = World::new(Folder::of(&["index.html", "a/b"]));
    for target in UNNAMEABLE.iter().chain(&["/file/src%2Fapp.ts"]) {
        assert_eq!(world.navigate(target).await.brief(), (200, "<index.html>"), "{target}");
    }
    let part = Request::get("/img/caf%E9.png").header("accept", "image/*").header("sec-fetch-dest", "image");
    assert_eq!(world.send(part).await.brief(), (404, NO_SUCH_FILE));
    let ruled = World::new(Folder::of(&["index.html", "404.html", "app.html"]).redirects("/file/* /app.html 200"));
    for target in ["/file/src%2Fapp.ts", "/file/caf%E9", "/file/%zz"] {
        assert_eq!(ruled.get(target).await.brief(), (200, "<app.html>"), "{target}");
    }
}

#[tokio::test]
async fn options_says_what_is_allowed_and_nothing_else() {
    let folder = Folder::of(&["index.html", "404.html", "docs/index.html", "a.js"]).redirects("/r /a.js 301").headers(
        "/*\n Access-Control-Allow-Origin: *\n X-Frame-Options: DENY\n Cache-Control: public\n/api/*\n \
         Access-Control-Allow-Headers: X-Token\n Access-Control-Max-Age: 60\n",
    );
    let mut world = World::new(folder);
    for (target, allowed) in [
        ("/", ""),
        ("/a.js", ""),
        ("/docs", ""),
        ("/r", ""),
        ("/missing", ""),
        ("/api/x", "X-Token"),
        ("/api/%2F", "X-Token"),
    ] {
        let answer = world.send(Request::options(target).header("origin", "https://x.example")).await;
        assert_eq!((answer.status.as_u16(), &*answer.body), (204, ""), "{target}");
        assert_eq!(answer.header("allow"), "GET, HEAD, OPTIONS", "{target}");
        assert_eq!(answer.header("access-control-allow-origin"), "*", "{target}");
        assert_eq!(answer.header("access-control-allow-headers"), allowed, "{target}");
        for absent in ["x-frame-options", "location", "etag", "content-type", "last-modified"] {
            assert_eq!(answer.header(absent), "", "{absent} of {target}");
        }
    }
    let all = world.send(Request::options("*")).await;
    assert_eq!((all.status.as_u16(), all.header("access-control-allow-origin")), (204, ""));
    // A preflight carries no credentials and learns nothing about what is behind the gate.
    for gate in [SiteGate::Password("nobody knows".into()), SiteGate::Org(domain::OrgId::new(now()))] {
        world.site.gate = gate;
        let answer = world.send(Request::options("/api/x")).await;
        assert_eq!((answer.status.as_u16(), answer.header("allow")), (204, "GET, HEAD, OPTIONS"));
        for absent in ["access-control-allow-origin", "access-control-allow-headers", "access-control-max-age"] {
            assert_eq!(answer.header(absent), "", "{absent}");
        }
    }
    world.site.suspended = Some(Suspension::Abuse);
    assert_eq!(world.send(Request::options("/")).await.status, 403);
}

#[tokio::test]
async fn the_date_of_a_file_is_that_of_its_content() {
    let folder =
        Folder::of(&["index.html", "old.html", "ahead.html"]).older("old.html", 3_600).older("ahead.html", -60);
    let world = World::new(folder);
    let earlier = "Fri, 15 Jan 2027 07:00:00 GMT";
    for (target, modified) in [("/", PUBLISHED), ("/old", earlier), ("/ahead", PUBLISHED)] {
        assert_eq!(world.get(target).await.header("last-modified"), modified, "{target}");
    }
    for (target, since, expected) in [
        ("/old", earlier, 304),
        ("/old", PUBLISHED, 200),
        ("/old", "Fri, 15 Jan 2027 06:59:59 GMT", 200),
        ("/", earlier, 200),
    ] {
        let answer = world.send(Request::get(target).header("if-modified-since", since)).await;
        assert_eq!(answer.status.as_u16(), expected, "{target} since {since}");
    }
    let part = Request::get("/old").header("range", "bytes=0-1").header("if-range", earlier);
    assert_eq!(world.send(part).await.status, 206);
}

#[tokio::test]
async fn the_state_of_the_site_comes_first() {
    let mut world = World::empty();
    assert_eq!(world.get("/").await.brief(), (404, "our page"));
    world.site.deployment = Some(world.publish(Folder::of(&["index.html"])));
    assert_eq!(world.get("/").await.brief(), (200, "<index.html>"));
    world.site.expires_at = Some(Timestamp::from_unix_millis(NOW + 1));
    assert_eq!(world.get("/").await.status, 200);
    *world.time.lock().unwrap() = Timestamp::from_unix_millis(NOW + 1);
    assert_eq!(world.get("/").await.brief(), (404, "our page"));
    world.site.expires_at = None;
    world.site.suspended = Some(Suspension::Legal);
    assert_eq!(world.get("/").await.brief(), (451, "our page"));
    for reason in [Suspension::Abuse, Suspension::Payment] {
        world.site.suspended = Some(reason);
        assert_eq!(world.get("/").await.brief(), (403, "our page"));
    }
}

#[tokio::test]
async fn addresses_that_are_not_the_live_one_are_not_for_search_engines() {
    let mut world = World::new(Folder::of(&["index.html"]));
    assert_eq!(world.get("/").await.header("x-robots-tag"), "");
    for kind in [SiteKind::Deployment, SiteKind::Share] {
        world.site.kind = kind;
        for target in ["/", "/missing", "/index.html", "/%zz"] {
            assert_eq!(world.get(target).await.header("x-robots-tag"), "noindex", "{target}");
        }
    }
}

#[tokio::test]
async fn open_tabs_keep_their_assets() {
    let mut world = World::new(Folder::of(&["index.html", "app-h4sh3d2.js"]));
    let older = Folder::of(&["app-h4sh3d1.js", "logo.svg.png"]).with("both-h4sh3d.js", "older");
    let oldest = Folder::of(&["app-h4sh3d0.js"]).with("both-h4sh3d.js", "oldest");
    let recent =
        [world.site.deployment.clone().unwrap(), world.publish(older), DeploymentId::new(now()), world.publish(oldest)];
    *world.shelf.recent.lock().unwrap() = recent.to_vec();

    let lent = world.get("/app-h4sh3d1.js").await;
    assert_eq!(lent.brief(), (200, "<app-h4sh3d1.js>"));
    assert_eq!(lent.header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(lent.header("content-type"), "text/javascript; charset=utf-8");
    assert_eq!(world.get("/app-h4sh3d0.js").await.status, 200);
    assert_eq!(world.get("/both-h4sh3d.js").await.body, "older");
    assert_eq!(world.get("/logo.svg.png").await.status, 404, "not fingerprinted");
    assert_eq!(world.get("/app-h4sh3d9.js").await.status, 404);

    world.site.kind = SiteKind::Deployment;
    assert_eq!(world.get("/app-h4sh3d1.js").await.status, 404);
    world.site.kind = SiteKind::Live;
    world.site.gate = SiteGate::Password("nobody knows".into());
    assert_eq!(world.get("/app-h4sh3d1.js").await.status, 401);
}
