//! `Basic-Auth` of the live deployment at every address of the site.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Request;

use super::*;

const GUARD: &str = "/s/*\n Basic-Auth: ann:her-password\n";
const OTHERS: &str = "/s/*\n Basic-Auth: bob:his-password\n";

fn site() -> Folder {
    Folder::of(&[
        "index.html",
        "404.html",
        "s/plan.html",
        "s/index.html",
        "s/404.html",
        "s/app-h4sh3d1.js",
        "open.html",
    ])
    .redirects("/alias /s/plan.html 200\n/any/* /s/plan 200\n/gone /s/plan 410\n/s/moved /open 302\n")
}

fn ask(target: &str, pair: &str) -> Builder {
    Request::get(target).header("authorization", format!("Basic {}", STANDARD.encode(pair)))
}

/// Serves the deployment address of a deployment with the headers `own` while one with the headers `live` is live.
fn own_address(own: &'static str, live: &'static str) -> World {
    let mut world = World::new(site().headers(own));
    world.site.live = Some(world.publish(Folder::of(&["index.html"]).headers(live)));
    world.site.kind = SiteKind::Deployment;
    world
}

#[tokio::test]
async fn a_guard_holds_at_every_address_of_the_site() {
    // A deployment from before the guard, one from after it (or the live one after a rollback), one with its own.
    for (own, live) in [("", GUARD), (GUARD, ""), (GUARD, GUARD)] {
        let world = own_address(own, live);
        for target in [
            "/s/plan",
            "/s/plan.html",
            "/s/plan/",
            "/%73/plan",
            "/s/%70lan",
            "/s/",
            "/s",
            "//s/plan",
            "/s/none",
            "/s/moved",
            "/s/app-h4sh3d1.js",
            "/alias",
            "/any/thing",
            "/gone",
        ] {
            for request in [
                Request::get(target),
                Request::head(target),
                Request::get(target).header("range", "bytes=0-1"),
                Request::get(target).header("if-none-match", "*"),
            ] {
                let answer = world.send(request).await;
                let is_redirect = answer.status == 308 && target.starts_with("//");
                assert!(answer.status == 401 || is_redirect, "{target} by {own:?} {live:?}: {}", answer.status);
                assert!(!answer.body.contains("<s/"), "{target}");
                if !is_redirect {
                    assert_eq!(answer.header("cache-control"), "private, no-store", "{target}");
                }
            }
        }
        for (target, expected) in [
            ("/s/plan", (200, "<s/plan.html>")),
            ("/alias", (200, "<s/plan.html>")),
            ("/gone", (410, "<s/plan.html>")),
            ("/s/none", (404, "<s/404.html>")),
            ("/s/plan.html", (308, "/s/plan")),
            ("/s/app-h4sh3d1.js", (200, "<s/app-h4sh3d1.js>")),
        ] {
            let answer = world.send(ask(target, "ann:her-password")).await;
            assert_eq!(answer.brief(), expected, "{target} by {own:?} {live:?}");
            assert_eq!(answer.header("cache-control"), "private, no-store", "{target}");
        }
        assert_eq!(world.get("/open").await.brief(), (200, "<open.html>"));
        let preflight = world.send(Request::options("/s/plan")).await;
        assert_eq!(preflight.status, 204);
    }
}

#[tokio::test]
async fn the_guards_of_both_deployments_must_open() {
    let world = own_address(OTHERS, GUARD);
    for pair in ["ann:her-password", "bob:his-password"] {
        assert_eq!(world.send(ask("/s/plan", pair)).await.status, 401, "{pair}");
    }
    assert_eq!(world.get("/open").await.brief(), (200, "<open.html>"));
}

#[tokio::test]
async fn wrong_guesses_count_for_the_site_and_not_for_an_address() {
    let mut world = own_address("", GUARD);
    let mut statuses = Vec::new();
    for n in 0..12 {
        // Each at another address of the site.
        let host = format!("dep-{n}--site.svc.test");
        world.visit.host = host.into();
        statuses.push(world.send(ask("/s/plan", &format!("ann:guess-{n}"))).await.status.as_u16());
    }
    assert_eq!((statuses[0], statuses[11]), (401, 429), "{statuses:?}");
}

#[tokio::test]
async fn without_the_live_pack_nothing_is_served_in_its_place() {
    let mut world = own_address("", GUARD);
    world.site.live = Some(DeploymentId::new(now()));
    for target in ["/s/plan", "/open"] {
        assert_eq!(world.get(target).await.status, 503, "{target}");
    }
    world.site.live = None;
    assert_eq!(world.get("/s/plan").await.brief(), (200, "<s/plan.html>"), "nothing was live yet");
}

#[tokio::test]
async fn a_lent_file_is_guarded_however_its_name_is_written() {
    let composed = "/caf%C3%A9/*\n Basic-Auth: ann:her-password\n";
    let world = World::new(Folder::of(&["index.html"]).headers(composed));
    *world.shelf.recent.lock().unwrap() = vec![world.publish(Folder::of(&["cafe\u{301}/a-h4sh3d1.js"]))];
    for target in ["/caf%C3%A9/a-h4sh3d1.js", "/cafe%CC%81/a-h4sh3d1.js"] {
        assert_eq!(world.get(target).await.status, 401, "{target}");
    }
}
