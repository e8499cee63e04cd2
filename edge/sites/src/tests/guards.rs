//! `Basic-Auth` in `_headers`: every way to a guarded file.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::site::SiteGate;
use http::Request;

use super::*;

fn credentials(pair: &str) -> String {
    format!("Basic {}", STANDARD.encode(pair))
}

fn folder() -> Folder {
    Folder::of(&[
        "index.html",
        "404.html",
        "secret/index.html",
        "secret/x.html",
        "secret/404.html",
        "secret/a-h4sh3d1.js",
        "secret/both/y.html",
        "private.html",
        "open.html",
    ])
    .variant("secret/x.html", Encoding::Br, "br")
    .redirects(
        "/alias /secret/x.html 200\n/any/* /secret/x.html 200\n/secret/moved /open 302\n/gone /secret/x.html 410\n\
         /away /secret/x\n",
    )
    .headers(
        "/*\n X-A: b\n/secret/*\n Basic-Auth: ann:open-sesame bob:p:a:ss\n/secret/both/*\n Basic-Auth: bob:p:a:ss\n/private\n \
         Basic-Auth: ann:open-sesame\n",
    )
}

#[tokio::test]
async fn every_way_to_a_guarded_file_asks_for_credentials() {
    let world = World::new(folder());
    for target in [
        "/secret/",
        "/secret",
        "/secret/x",
        "/secret/x.html",
        "/secret/x/",
        "/secret/%78",
        "/%73ecret/x",
        "/secret/nothing",
        "/secret/moved",
        "/secret/a-h4sh3d1.js",
        "/secret/both/y",
        "/alias",
        "/any/thing",
        "/gone",
        "/private",
        "/private.html",
        "/private/",
    ] {
        for request in [
            Request::get(target),
            Request::head(target),
            Request::get(target).header("range", "bytes=0-1"),
            Request::get(target).header("if-none-match", "*"),
            Request::get(target).header("accept-encoding", "br"),
            Request::get(target).header("authorization", "Bearer x"),
        ] {
            let answer = world.send(request).await;
            assert_eq!(answer.status, 401, "{target}");
            assert!(!answer.body.contains("<secret") && answer.header("x-a").is_empty(), "{target}");
            assert_eq!(answer.header("www-authenticate"), "Basic realm=\"private\", charset=\"UTF-8\"");
            assert_eq!(answer.header("cache-control"), "private, no-store");
        }
    }
    assert_eq!(world.get("/open").await.brief(), (200, "<open.html>"));
    assert_eq!(world.get("/away").await.brief(), (302, "/secret/x"));
    let wrong = world.send(Request::get("/open").header("authorization", credentials("ann:wrong"))).await;
    assert_eq!(wrong.brief(), (200, "<open.html>"), "nobody is asked there");
}

#[tokio::test]
async fn credentials_open_what_they_are_for() {
    let world = World::new(folder());
    let ask = |target: &'static str, pair: &str| Request::get(target).header("authorization", credentials(pair));
    for (target, pair, expected) in [
        ("/secret/x", "ann:open-sesame", (200, "<secret/x.html>")),
        ("/secret/x", "bob:p:a:ss", (200, "<secret/x.html>")),
        ("/secret/x.html", "bob:p:a:ss", (308, "/secret/x")),
        ("/alias", "ann:open-sesame", (200, "<secret/x.html>")),
        ("/gone", "ann:open-sesame", (410, "<secret/x.html>")),
        ("/secret/moved", "ann:open-sesame", (302, "/open")),
        ("/secret/nothing", "ann:open-sesame", (404, "<secret/404.html>")),
        ("/secret/both/y", "bob:p:a:ss", (200, "<secret/both/y.html>")),
        ("/secret/both/y", "ann:open-sesame", (401, "our page")),
        ("/private", "bob:p:a:ss", (401, "our page")),
        ("/secret/x", "ann:p:a:ss", (401, "our page")),
        ("/secret/x", "cy:open-sesame", (401, "our page")),
        ("/secret/x", "ann:", (401, "our page")),
    ] {
        let answer = world.send(ask(target, pair)).await;
        assert_eq!(answer.brief(), expected, "{target} {pair}");
        assert_eq!(answer.header("cache-control"), "private, no-store", "{target} {pair}");
        assert!(answer.header("basic-auth").is_empty());
    }
    let fingerprinted = world.send(ask("/secret/a-h4sh3d1.js", "ann:open-sesame")).await;
    assert_eq!((fingerprinted.status.as_u16(), fingerprinted.header("cache-control")), (200, "private, no-store"));
}

#[tokio::test]
async fn guesses_are_few_and_travel_encrypted() {
    let mut world = World::new(folder());
    let guess = |n: usize| Request::get("/secret/x").header("authorization", credentials(&format!("ann:guess-{n}")));
    let mut statuses = Vec::new();
    for n in 0..12 {
        statuses.push(world.send(guess(n)).await.status.as_u16());
    }
    assert_eq!((statuses[0], statuses[11]), (401, 429), "{statuses:?}");
    assert_eq!(world.get("/open").await.brief(), (200, "<open.html>"));
    world.visit.tls = false;
    let redirect = world.get("/secret/x").await;
    assert_eq!(redirect.brief(), (308, "https://site.svc.test:8443/secret/x"));
}

#[tokio::test]
async fn a_lent_file_is_guarded_as_it_was_and_as_it_is() {
    let lender = || Folder::of(&["index.html", "secret/b-h4sh3d2.js"]);
    let guarded = "/secret/*\n Basic-Auth: ann:open-sesame\n";
    for (before, now) in [(guarded, ""), ("", guarded), (guarded, guarded)] {
        let world = World::new(Folder::of(&["index.html"]).headers(now));
        *world.shelf.recent.lock().unwrap() = vec![world.publish(lender().headers(before))];
        assert_eq!(world.get("/secret/b-h4sh3d2.js").await.status, 401, "{before:?} {now:?}");
        let answer = world
            .send(Request::get("/secret/b-h4sh3d2.js").header("authorization", credentials("ann:open-sesame")))
            .await;
        assert_eq!(answer.brief(), (200, "<secret/b-h4sh3d2.js>"), "{before:?} {now:?}");
        assert_eq!(answer.header("cache-control"), "private, no-store");
    }
}

#[tokio::test]
async fn the_sites_own_gate_is_asked_first() {
    let mut world = World::new(folder());
    let hash = secrets::passwords::hash(&"the-gate".to_owned().try_into().unwrap()).unwrap();
    world.site.gate = SiteGate::Password(hash.into());
    let answer = world.send(Request::get("/secret/x").header("authorization", credentials("ann:open-sesame"))).await;
    assert_eq!(answer.status, 401);
    assert!(answer.header("www-authenticate").contains("realm=\"site\""));
    let answer = world.send(Request::get("/secret/x").header("authorization", credentials("any:the-gate"))).await;
    assert!(answer.status == 401 && answer.header("www-authenticate").contains("realm=\"private\""));
    let answer = world.send(Request::get("/open").header("authorization", credentials("any:the-gate"))).await;
    assert_eq!(answer.brief(), (200, "<open.html>"));
}

#[tokio::test]
async fn pages_of_other_sites_do_not_make_a_browser_ask() {
    let world = World::new(folder());
    for (site, mode, is_asked) in [
        ("none", "navigate", true),
        ("cross-site", "navigate", true),
        ("same-origin", "no-cors", true),
        ("same-origin", "cors", true),
        ("cross-site", "no-cors", false),
        ("cross-site", "cors", false),
        ("same-site", "no-cors", false),
    ] {
        let ask = Request::get("/secret/x").header("sec-fetch-site", site).header("sec-fetch-mode", mode);
        let answer = world.send(ask).await;
        assert_eq!(answer.status, 401, "{site} {mode}");
        assert_eq!(!answer.header("www-authenticate").is_empty(), is_asked, "{site} {mode}");
    }
}

#[tokio::test]
async fn right_credentials_do_not_count_as_guesses() {
    let world = World::new(folder());
    let pairs = ["ann:open-sesame", "bob:p:a:ss"];
    for n in 0..12 {
        // Each site's password costs one hash per address.
        let target = "/secret/x";
        let answer = world.send(Request::get(target).header("authorization", credentials(pairs[n % 2]))).await;
        assert_eq!(answer.status, 200, "{n}");
    }
    // The right password of an unknown name counts as a guess.
    let mut statuses = Vec::new();
    for n in 0..11 {
        let pair = format!("nobody-{n}:open-sesame");
        statuses.push(
            world.send(Request::get("/secret/x").header("authorization", credentials(&pair))).await.status.as_u16(),
        );
    }
    assert_eq!((statuses[0], statuses[10]), (401, 429), "{statuses:?}");
}
