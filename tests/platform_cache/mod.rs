//! The edges' cache of admin's answers: files of the console with a hash in their name, and icons of organizations.

mod console;
mod poisoning;
mod purges;
mod upstream;

use std::{fmt::Write as _, future::IntoFuture as _, net::IpAddr};

use futures_util::future::join_all;
use reqwest::Method;

use self::upstream::{Said, Upstream};
use crate::{
    BACKGROUND,
    metrics::Page,
    world::{World, answer::Answer, eventually, ports, request},
};

const CONSOLE: &str = "app.svc.localhost";

/// A world whose edge asks `upstream` in the place of admin, and the port of the edge's metrics.
async fn world_before(upstream: &Upstream) -> (World, u16) {
    let port = ports::free();
    let builder = World::builder().set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"));
    (builder.set("EDGE__ADMIN_UPSTREAMS", &upstream.address).start().await, port)
}

/// Requests for something that has a name, by whether it was kept.
async fn counted(port: u16, cache: &str) -> f64 {
    let page = Page::of(port).await;
    page.labelled("svc_platform_cached_total", &format!(r#"cache="{cache}""#)).unwrap_or_default()
}

/// Bytes that the edge says its cache of admin's answers takes.
async fn bytes_kept(port: u16) -> f64 {
    Page::of(port).await.labelled("svc_edge_memory_bytes", r#"kind="platform""#).unwrap_or(-1.0)
}

fn console(path: &str) -> String {
    format!("https://{CONSOLE}{path}")
}

#[tokio::test]
async fn a_hundred_clients_ask_admin_once() {
    const ASSET: &str = "/_app/immutable/entry.js";
    let upstream = Upstream::start().await;
    let (world, port) = world_before(&upstream).await;
    let body = "x".repeat(40_000);
    upstream.say(Said::forever().body(&*body));
    // At addresses of their own, so that no client has more than its share in flight.
    let ca = reqwest::Certificate::from_pem(&std::fs::read(world.ca()).unwrap()).unwrap();
    let browsers: Vec<_> = (2..22)
        .map(|number| {
            let browser = request::client().tls_certs_only([ca.clone()]);
            browser.local_address(IpAddr::from([127, 0, 0, number])).build().unwrap()
        })
        .collect();
    // Handshakes are over before anybody asks.
    let greeting = world.edge().address(&console("/api/health"));
    join_all(browsers.iter().map(async |browser| browser.get(greeting.clone()).send().await.unwrap())).await;
    upstream.hold();
    let url = world.edge().address(&console(ASSET));
    let ask_all = || {
        join_all(browsers.iter().flat_map(|browser| std::iter::repeat_n(browser, 5)).map(async |browser| {
            let response = browser.get(url.clone()).header("cookie", "svc_session=mine").send().await.unwrap();
            Answer::read(ASSET.to_owned(), response).await.assert_body(200, &body)
        }))
    };
    let release = async {
        eventually(BACKGROUND, "all have asked", async || counted(port, "miss").await > 99.5).await;
        upstream.release();
    };
    tokio::join!(ask_all(), release);
    assert_eq!(upstream.count(ASSET), 1);
    ask_all().await;
    assert_eq!((upstream.count(ASSET), counted(port, "hit").await), (1, 100.0));
    eventually(BACKGROUND, "its bytes are reported", async || bytes_kept(port).await > 40_000.0).await;
}

#[tokio::test]
async fn nobody_waits_for_a_client_that_has_left() {
    const ASSET: &str = "/_app/immutable/left.js";
    const CUT: &str = "/_app/immutable/cut.js";
    let upstream = Upstream::start().await;
    let (world, _) = world_before(&upstream).await;
    upstream.hold();
    let (first, url) = (world.edge().another_browser(false), world.edge().address(&console(ASSET)));
    let asking = tokio::spawn(async move { first.get(url).send().await });
    eventually(BACKGROUND, "admin is asked", async || upstream.count(ASSET) == 1).await;
    asking.abort();
    assert!(asking.await.is_err());
    let second = world.edge().get(&console(ASSET)).into_future();
    let release = async { upstream.release() };
    let (answer, ()) = tokio::join!(second, release);
    answer.assert_body(200, ASSET);
    let before = upstream.count(ASSET);
    world.edge().get(&console(ASSET)).await.assert_body(200, ASSET);
    assert_eq!(upstream.count(ASSET), before, "it is kept");
    // What breaks off is not kept, and whoever comes next asks anew.
    upstream.say(Said::forever().body("half").with("content-length", "8"));
    for _ in 1..3 {
        let before = upstream.count(CUT);
        let broken = world.edge().browser.get(world.edge().address(&console(CUT))).send().await;
        let is_whole = match broken {
            Ok(response) => response.status() == 200 && response.bytes().await.is_ok(),
            Err(_) => false,
        };
        assert!(!is_whole);
        assert!(upstream.count(CUT) > before);
    }
    upstream.say(Said::forever());
    world.edge().get(&console(CUT)).await.assert_body(200, CUT);
}

#[tokio::test]
async fn nothing_personal_is_kept_or_handed_on() {
    const ASSET: &str = "/_app/immutable/a.js";
    let upstream = Upstream::start().await;
    let (world, port) = world_before(&upstream).await;
    // Without the world's own request, which holds the answers of the API against their description.
    let get = async |path: &str| {
        let edge = world.edge();
        let request = edge.browser.get(edge.address(&console(path))).header("cookie", "svc_session=mine");
        let request = request.header("authorization", "Bearer svc_mine").header("x-request-id", "req_of_somebody");
        Answer::read(path.to_owned(), request.send().await.unwrap()).await
    };
    for said in [
        Said::forever().with("set-cookie", "a=b"),
        Said::forever().cached("private, max-age=31536000, immutable"),
        Said::forever().cached("no-store"),
        Said::forever().with("vary", "cookie"),
        Said::forever().with("content-encoding", "gzip"),
        Said::forever().status(404),
    ] {
        upstream.say(said.clone());
        let before = upstream.count(ASSET);
        for _ in 0..3 {
            assert_eq!(get(ASSET).await.status.as_u16(), said.status);
        }
        assert_eq!(upstream.count(ASSET), before + 3, "{said:?}");
    }
    for asked in upstream.asked() {
        assert!(!asked.headers.contains_key("cookie") && !asked.headers.contains_key("authorization"), "{asked:?}");
        assert!(!asked.headers.contains_key("x-svc-cache-name"), "{asked:?}");
    }
    assert!(counted(port, "hit").await < 0.5);
    // What has no name is asked for as it is, and never kept.
    upstream.say(Said::forever().with("set-cookie", "svc_session=yours"));
    for path in ["/", "/api/me", "/sites/engine", "/_app/version.json", "/api/orgs/acme"] {
        for _ in 0..2 {
            assert_eq!(get(path).await.header("set-cookie"), "svc_session=yours");
        }
        let asked: Vec<_> = upstream.asked().into_iter().filter(|asked| asked.target == path).collect();
        assert_eq!(asked.len(), 2);
        assert!(asked.iter().all(|asked| asked.headers["cookie"] == "svc_session=mine"), "{path}");
    }
    // A kept answer carries nobody else's id.
    upstream.say(Said::forever().with("x-request-id", "req_of_somebody").with("x-internal", "y"));
    get(ASSET).await.assert_status(200);
    let kept = world.edge().get(&console(ASSET)).header("x-request-id", "req_of_another").await;
    assert_eq!((kept.header("x-request-id"), kept.find_header("x-internal")), ("req_of_another", None));
    assert!(counted(port, "hit").await > 0.5);
}

#[tokio::test]
async fn a_flood_of_made_up_names_is_not_kept() {
    let upstream = Upstream::start().await;
    let (world, port) = world_before(&upstream).await;
    // Even if admin said so.
    upstream.say(Said::forever().status(404).body("x".repeat(10_000)));
    let ask_for_all = async || {
        for round in 0..30 {
            join_all((0..10).map(async |n| {
                let path = format!("/_app/immutable/{round}-{n}.js");
                world.edge().get(&console(&path)).await.assert_status(404);
            }))
            .await;
        }
    };
    ask_for_all().await;
    ask_for_all().await;
    assert_eq!((upstream.asked().len(), counted(port, "hit").await), (600, 0.0));
    // What is there is kept within the share: files of 300 kB in a share of 2.6 MB.
    upstream.say(Said::forever().body("x".repeat(300_000)));
    for _ in 0..2 {
        for n in 0..30 {
            world.edge().get(&console(&format!("/_app/immutable/{n}.js"))).await.assert_status(200);
        }
    }
    eventually(BACKGROUND, "their bytes are reported", async || bytes_kept(port).await > 300_000.0).await;
    let share = Page::of(port).await.labelled("svc_edge_memory_share_bytes", r#"kind="platform""#).unwrap();
    assert!(counted(port, "hit").await <= share / 300_000.0);
    assert!(bytes_kept(port).await <= share);
}

#[tokio::test]
async fn codings_conditions_and_ranges_are_right_with_and_without_admin() {
    const ASSET: &str = "/_app/immutable/entry/app.0a1b2c.js";
    let folder = tempfile::tempdir().unwrap();
    let mut script = String::new();
    for line in 0..2_000 {
        writeln!(script, "console.log({line});").unwrap();
    }
    let mut packed = Vec::new();
    brotli::BrotliCompress(&mut script.as_bytes(), &mut packed, &brotli::enc::BrotliEncoderParams::default()).unwrap();
    std::fs::create_dir_all(folder.path().join("_app/immutable/entry")).unwrap();
    std::fs::write(folder.path().join("index.html"), "<p>console").unwrap();
    std::fs::write(folder.path().join(&ASSET[1..]), &script).unwrap();
    for other in ["headed.js", "known.js", "cut.js"] {
        std::fs::write(folder.path().join("_app/immutable").join(other), &script).unwrap();
    }
    std::fs::write(folder.path().join(format!("{}.br", &ASSET[1..])), &packed).unwrap();
    let mut world = World::builder().set("ADMIN__CONSOLE", folder.path().display()).start().await;
    // Whoever asks first may ask for less than all of it.
    for (name, method, field, status) in [
        ("headed.js", Method::HEAD, ("x-none", "y"), 200),
        ("known.js", Method::GET, ("if-none-match", "*"), 304),
        ("cut.js", Method::GET, ("range", "bytes=0-3"), 206),
    ] {
        let url = console(&format!("/_app/immutable/{name}"));
        let first = world.edge().request(method, &url).header(field.0, field.1).await.assert_status(status);
        assert_eq!(first.body.len(), if status == 206 { 4 } else { 0 }, "{name}");
        for _ in 0..2 {
            world.edge().get(&url).await.assert_body(200, &script);
        }
    }
    for round in 0..2 {
        let ask = |method: Method, fields: &[(&str, &str)]| {
            let request = world.edge().request(method, &console(ASSET));
            fields.iter().fold(request, |request, (name, value)| request.header(name, value))
        };
        let plain = ask(Method::GET, &[]).await.assert_body(200, &script);
        assert_eq!((plain.find_header("content-encoding"), plain.header("vary")), (None, "accept-encoding"));
        assert_eq!(plain.find_header("age"), None);
        let small = ask(Method::GET, &[("accept-encoding", "gzip, br")]).await.assert_body(200, &packed);
        assert_eq!(small.header("content-encoding"), "br");
        assert_ne!(small.header("etag"), plain.header("etag"), "two representations");
        for (accepted, is_packed) in [("br;q=0.1", true), ("br;q=1, identity;q=0.5", true), ("br;q=0, *", false)] {
            let answer = ask(Method::GET, &[("accept-encoding", accepted)]).await;
            let expected = if is_packed { &packed[..] } else { script.as_bytes() };
            answer.assert_body(200, expected);
        }
        let head = ask(Method::HEAD, &[]).await.assert_body(200, "");
        assert_eq!(head.header("content-length"), script.len().to_string());
        let etag = plain.header("etag");
        for known in [etag, "*", &*format!("\"other\", W/{etag}")] {
            let answer = ask(Method::GET, &[("if-none-match", known)]).await.assert_body(304, "");
            assert_eq!(answer.header("etag"), etag, "{known}");
        }
        ask(Method::GET, &[("if-none-match", small.header("etag"))]).await.assert_body(200, &script);
        let part = ask(Method::GET, &[("range", "bytes=10-19")]).await.assert_body(206, &script[10..20]);
        assert_eq!(part.header("content-range"), format!("bytes 10-19/{}", script.len()));
        ask(Method::GET, &[("range", "bytes=9999999-")]).await.assert_status(416);
        if round == 0 {
            world.admin.kill();
        }
    }
    let missing = console("/_app/immutable/entry/app.missing.js");
    world.edge().get(&missing).await.assert_status(502);
}

#[tokio::test]
async fn who_wants_a_part_of_a_large_answer_leaves_no_lock_behind() {
    let upstream = Upstream::start().await;
    let (world, _) = world_before(&upstream).await;
    let body = "x".repeat(400_000);
    upstream.say(Said::forever().body(&*body).with("etag", "\"one\""));
    for (name, method, field, status) in [
        ("headed.js", Method::HEAD, ("x-none", "y"), 200),
        ("known.js", Method::GET, ("if-none-match", "\"one\""), 304),
        ("cut.js", Method::GET, ("range", "bytes=0-3"), 206),
    ] {
        let url = console(&format!("/_app/immutable/{name}"));
        for _ in 0..3 {
            world.edge().request(method.clone(), &url).header(field.0, field.1).await.assert_status(status);
        }
        // Nobody waits for what is not coming.
        let whole = join_all((0..5).map(|_| world.edge().get(&url).into_future())).await;
        for answer in whole {
            answer.assert_body(200, &body);
        }
        let before = upstream.count(&format!("/_app/immutable/{name}"));
        world.edge().request(method.clone(), &url).header(field.0, field.1).await.assert_status(status);
        assert_eq!(upstream.count(&format!("/_app/immutable/{name}")), before, "it is kept now");
    }
    let log = world.edge().process.log();
    assert!(!log.contains("panicked") && !log.contains("angling"), "{log}");
}
