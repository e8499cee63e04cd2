//! `_redirects` and `_headers` applied to requests.

use domain::site::SiteGate;
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
        ("/u/a%26b?q=1", (302, "/users?name=a%26b")),
        ("/u/a&b=c+d?q=1", (302, "/users?name=a%26b%3Dc%2Bd")),
        ("/app/users/7", (200, "<app/index.html>")),
        ("/app/main.js", (200, "<app/main.js>")),
        ("/app/index.html", (308, "/app/")),
        ("/alias", (200, "<new.html>")),
        ("/broken", (404, "<404.html>")),
        ("/same/x", (404, "<404.html>")),
        ("/away//evil.example", (302, "/evil.example")),
        ("/away/%2Fevil.example", (302, "/%2Fevil.example")),
        ("/away/https://evil.example", (302, "/https://evil.example")),
        ("/top?a", (303, "/new?a#part")),
    ] {
        assert_eq!(world.get(target).await.brief(), expected, "{target}");
    }
}

#[tokio::test]
async fn rules_for_a_folder_hold_for_its_address_without_the_slash() {
    let folder = Folder::of(&["index.html", "docs/index.html", "new.html", "404.html"])
        .redirects("/docs/ /new 302\n/w/* /docs/:splat 200\n")
        .headers("/docs/*\n X-Docs: 1\n");
    let world = World::new(folder);
    for (target, expected) in [
        ("/docs?x=1", (308, "/docs/?x=1")),
        ("/docs/?x=1", (302, "/new?x=1")),
        ("/docs/index", (308, "/docs/")),
        ("/w/index.html", (200, "<docs/index.html>")),
        ("/w/%2e%2e/docs/index.html", (404, "<404.html>")),
        ("/w/caf%E9", (404, "<404.html>")),
    ] {
        assert_eq!(world.get(target).await.brief(), expected, "{target}");
    }
    let exact = World::new(Folder::of(&["docs/index.html"]).redirects("/docs /elsewhere 301\n"));
    assert_eq!(exact.get("/docs").await.brief(), (301, "/elsewhere"), "a rule goes first");
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
    let redirect = world.get("/r").await;
    assert_eq!((redirect.header("x-frame-options"), redirect.header("vary-by")), ("DENY", "x"));

    // The site's caching headers do not override its gate.
    world.site.gate = SiteGate::Org(domain::OrgId::new(now()));
    assert_eq!(world.get("/a.js").await.header("cache-control"), "private, no-store");
}

#[tokio::test]
async fn redirects_have_the_headers_of_the_site_but_those_of_a_body() {
    let folder = Folder::of(&["index.html", "a.html"]).redirects("/r /a\n/old/:x /a?x=:x\n").headers(
        "/*\n Access-Control-Allow-Origin: *\n Cache-Control: max-age=60\n Content-Type: text/x\n Expires: 0\n\
         Content-Disposition: attachment\n! Cache-Control\n/old/:x\n X-From: :x\nhttps://:sub.svc.test/*\n X-Sub: :sub\n",
    );
    let world = World::new(folder);
    for target in ["/r", "/a.html", "/old/b%2Cc,d"] {
        let answer = world.get(target).await;
        assert!(answer.status.is_redirection(), "{target}");
        assert_eq!(answer.header("access-control-allow-origin"), "*", "{target}");
        assert_eq!(answer.header("cache-control"), "public, max-age=0, must-revalidate", "{target}");
        assert_eq!(answer.header("x-sub"), "site", "{target}");
        for absent in ["content-type", "content-disposition", "expires"] {
            assert_eq!(answer.header(absent), "", "{target} {absent}");
        }
    }
    let answer = world.get("/old/b%2Cc,d").await;
    assert_eq!((answer.header("location"), answer.header("x-from")), ("/a?x=b%2Cc,d", "b%2Cc%2Cd"));
}

#[tokio::test]
async fn a_page_for_whatever_has_no_file() {
    let folder = Folder::of(&["index.html", "app.html", "a.js", "deep/b.html"]).redirects("/* /app.html 200\n");
    let world = World::new(folder);
    for (target, expected) in [
        ("/", (200, "<index.html>")),
        ("/a.js", (200, "<a.js>")),
        ("/deep/b", (200, "<deep/b.html>")),
        ("/deep/b.html", (308, "/deep/b")),
        ("/deep/x", (200, "<app.html>")),
        ("/x.js", (200, "<app.html>")),
    ] {
        assert_eq!(world.get(target).await.brief(), expected, "{target}");
    }
}

#[tokio::test]
async fn statuses_and_force_of_netlify() {
    let folder = Folder::of(&[
        "index.html",
        "404.html",
        "gone-h4sh3d1.html",
        "old/kept.html",
        "secret/x.html",
        "app.html",
        "new.html",
    ])
    .redirects(
        "/old/* /gone-h4sh3d1.html 410\n/secret/* /404.html 404!\n/new /app.html 200!\n/moved /new 301!\n/none /nothing 410\n\
         /none2 /nothing 404\n",
    );
    let world = World::new(folder);
    for (target, expected) in [
        ("/old/x", (410, "<gone-h4sh3d1.html>")),
        ("/old/kept", (200, "<old/kept.html>")),
        ("/secret/x", (404, "<404.html>")),
        ("/secret/y", (404, "<404.html>")),
        ("/new", (200, "<app.html>")),
        ("/moved", (301, "/new")),
        ("/none", (410, "our page")),
        ("/none2", (404, "our page")),
    ] {
        assert_eq!(world.get(target).await.brief(), expected, "{target}");
    }
    let conditional = Request::get("/old/x").header("if-none-match", "*").header("range", "bytes=0-0");
    let gone = world.send(conditional).await;
    assert_eq!((gone.status.as_u16(), gone.header("etag"), gone.header("accept-ranges")), (410, "", ""));
    assert!(!gone.header("cache-control").contains("immutable"));
    let head = world.send(Request::head("/old/x")).await;
    assert_eq!((head.status.as_u16(), head.body.as_str()), (410, ""));
}

#[tokio::test]
async fn conditions_on_queries_carry_their_values_as_data() {
    let folder = Folder::of(&["index.html"]).redirects(
        "/articles id=:id tag=:tag /posts/:tag/:id 301\n/articles id=:id /posts/:id 301\n/articles kind=a%20b /kinds/ab?x=1\n",
    );
    let world = World::new(folder);
    for (target, expected) in [
        ("/articles?id=7&tag=x", (301, "/posts/x/7")),
        ("/articles?tag=x&more=1&id=7", (301, "/posts/x/7?more=1")),
        ("/articles?id=7", (301, "/posts/7")),
        ("/articles?id=7%2F8%26&tag=..", (301, "/posts/7%2F8%26?tag=..")),
        ("/articles?id=//evil.example", (301, "/posts/%2F%2Fevil.example")),
        ("/articles?id=a+b", (301, "/posts/a%20b")),
        ("/articles?kind=a+b", (302, "/kinds/ab?x=1")),
        ("/articles?id=", (200, "<index.html>")),
        ("/articles", (200, "<index.html>")),
    ] {
        assert_eq!(world.get(target).await.brief(), expected, "{target}");
    }
}

#[tokio::test]
async fn languages_and_countries_decide_and_no_cache_shares_it() {
    let folder = Folder::of(&["index.html", "de/index.html", "h4-h4sh3d12.js", "us.js"]).redirects(
        "/ /de/ 302 Language=de\n/ /fr/ 302 Language=fr\n/h4-h4sh3d12.js /us.js 200 Country=us,ca\n/x id=1 /de/ Language=de\n",
    );
    let mut world = World::new(folder);
    let asked = |language: &'static str| Request::get("/").header("accept-language", language);
    for (language, expected) in [
        ("de-AT,de;q=0.9,en;q=0.5", (302, "/de/")),
        ("fr;q=0.9, de;q=0.2", (302, "/fr/")),
        ("en, de;q=0.1", (302, "/de/")),
        ("en", (200, "<index.html>")),
        ("*", (200, "<index.html>")),
        ("de;q=0", (200, "<index.html>")),
    ] {
        let answer = world.send(asked(language)).await;
        assert_eq!(answer.brief(), expected, "{language}");
        assert!(answer.headers.get_all("vary").iter().any(|value| value == "Accept-Language"), "{language}");
        assert_eq!(answer.header("cache-control"), "private, max-age=0, must-revalidate");
    }
    assert_eq!(world.send(asked("de").uri("/de/")).await.header("cache-control"), "public, max-age=0, must-revalidate");
    let unmet = world.send(asked("de").uri("/x?id=2")).await;
    assert!(unmet.headers.get_all("vary").iter().all(|value| value != "Accept-Language"), "{:?}", unmet.headers);
    for (country, body) in [(None, "<h4-h4sh3d12.js>"), (Some(*b"DE"), "<h4-h4sh3d12.js>"), (Some(*b"CA"), "<us.js>")] {
        world.visit.country = country;
        let answer = world.get("/h4-h4sh3d12.js").await;
        assert_eq!(
            (answer.body.as_str(), answer.header("cache-control")),
            (body, "private, max-age=0, must-revalidate")
        );
        assert!(!answer.headers.get_all("vary").iter().any(|value| value == "Accept-Language"));
    }
}

#[tokio::test]
async fn a_rule_of_many_paths_leads_no_file_in_a_circle() {
    let folder =
        Folder::of(&["index.html", "blog/a.html", "blog/b/index.html"]).redirects("/blog/:slug /blog/:slug/ 301\n");
    let world = World::new(folder);
    assert_eq!(world.get("/blog/a").await.brief(), (200, "<blog/a.html>"));
    assert_eq!(world.get("/blog/b").await.brief(), (301, "/blog/b/"));
    assert_eq!(world.get("/blog/c").await.brief(), (301, "/blog/c/"));
}

#[tokio::test]
async fn an_absolute_target_at_the_sites_own_address_does_not_send_visitors_round() {
    let world = World::new(Folder::of(&["index.html", "x.html", "a.html", "b.html", "c.html", "h.html"]).redirects(
        "/x https://site.svc.test:8443/x 301\n/a https://SITE.svc.test:8443/b\n/b https://site.svc.test:8443/a?n=1\n\
         /c https://site.svc.test:8443/c.html 301\n/h http://site.svc.test/h 301\n/on/* https://site.svc.test:8443/on/n/:splat\n\
         /other https://site.svc.test/other\n/moved https://site.svc.test:8443/new\n/new /x 301\n\
         /* https://www.svc.test/:splat 301\n",
    ));
    for (target, expected) in [
        ("/x", (301, "https://www.svc.test/x")),
        ("/a", (301, "https://www.svc.test/a")),
        ("/b", (301, "https://www.svc.test/b")),
        ("/c", (301, "https://site.svc.test:8443/c.html")),
        ("/h", (301, "https://www.svc.test/h")),
        ("/on/1", (301, "https://www.svc.test/on/1")),
        ("/other", (302, "https://site.svc.test/other")),
        ("/moved", (302, "https://site.svc.test:8443/new")),
    ] {
        assert_eq!(world.get(target).await.brief(), expected, "{target}");
    }
    let clean = World::new(Folder::of(&["c.html"]).redirects("/c https://site.svc.test:8443/c.html 301\n"));
    assert_eq!(clean.get("/c").await.brief(), (200, "<c.html>"), "through a clean address");
    let mut world = world;
    world.visit.host = "www.svc.test".into();
    world.visit.public_port = None;
    assert_eq!(world.get("/x").await.brief(), (301, "https://site.svc.test:8443/x"), "from another name of the site");
    let canonical = World::new(Folder::of(&["x.html"]).redirects("/* https://www.svc.test/:splat 301\n"));
    assert_eq!(canonical.get("/x").await.brief(), (301, "https://www.svc.test/x"));
    let mut canonical = canonical;
    canonical.visit.host = "www.svc.test".into();
    canonical.visit.public_port = None;
    assert_eq!(canonical.get("/x").await.brief(), (200, "<x.html>"), "at the name that it leads to");
}

#[tokio::test]
async fn a_rule_answers_requests_for_data_with_the_single_page() {
    let empty = |accept: &'static str| {
        Request::get("/app/route")
            .header("accept", accept)
            .header("sec-fetch-dest", "empty")
            .header("sec-fetch-mode", "cors")
    };
    let (plain, ruled) = (
        World::new(Folder::of(&["index.html"])),
        World::new(Folder::of(&["index.html", "app.js"]).redirects("/* /index.html 200\n")),
    );
    for (world, accept, expected) in [
        (&plain, "text/html", (200, "<index.html>")),
        (&plain, "*/*", (404, NO_SUCH_FILE)),
        (&plain, "application/json", (404, NO_SUCH_FILE)),
        (&ruled, "text/html", (200, "<index.html>")),
        (&ruled, "*/*", (200, "<index.html>")),
    ] {
        assert_eq!(world.send(empty(accept)).await.brief(), expected, "{accept}");
    }
    assert_eq!(ruled.get("/app.js").await.brief(), (200, "<app.js>"));
}
