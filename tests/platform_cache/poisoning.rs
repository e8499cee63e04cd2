//! Requests that try to have one answer kept under the name of another.

use std::sync::Arc;

use rustls::version::TLS13;

use super::{CONSOLE, console, upstream::Upstream, world_before};
use crate::world::{
    World,
    socket::{connect_tls, converse, tls},
};

const VICTIM: &str = "/_app/immutable/victim.js";

/// Sends a request over HTTP/1.1, on a connection made for the console.
async fn send(world: &World, target: &str, fields: &str) -> String {
    let config = Arc::new(tls(world.ca(), &[&TLS13], &["http/1.1"]));
    let mut stream = connect_tls(world.public_port(), CONSOLE, config).await.unwrap();
    let request = format!("GET {target} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n");
    String::from_utf8_lossy(&converse(&mut stream, request.as_bytes()).await).into_owned()
}

#[tokio::test]
async fn odd_paths_are_never_kept_and_never_answered_from_the_cache() {
    // It answers everything with its target, and says that it may be kept for ever.
    let upstream = Upstream::start().await;
    let (world, _) = world_before(&upstream).await;
    let host = format!("Host: {CONSOLE}\r\n");
    world.edge().get(&console(VICTIM)).await.assert_body(200, VICTIM);
    for target in [
        "/_app/immutable/x/../victim.js",
        "/_app/immutable/./victim.js",
        "/_app/immutable//victim.js",
        "//_app/immutable/victim.js",
        "/_app/immutable/%76ictim.js",
        "/_app/immutable%2fvictim.js",
        "/_app%2fimmutable%2fvictim.js",
        "/_app/immutable/..%2fimmutable/victim.js",
        "/_app/immutable/victim.js%00",
        "/_app/immutable/victim.js%20",
        "/_app/immutable/victim.js?",
        "/_app/immutable/victim.js?v=1",
        "/_app/immutable/victim.js;v=1",
        "/_APP/immutable/victim.js",
        "/api/_app/immutable/victim.js",
    ] {
        for _ in 0..2 {
            let answer = send(&world, target, &host).await;
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(target), "{target}: {answer}");
        }
        assert_eq!(upstream.count(target), 2, "{target}");
    }
    world.edge().get(&console(VICTIM)).await.assert_body(200, VICTIM);
    assert_eq!(upstream.count(VICTIM), 1);
}

#[tokio::test]
async fn hosts_and_headers_confuse_no_name() {
    let upstream = Upstream::start().await;
    let (world, port) = world_before(&upstream).await;
    let own = format!("Host: {CONSOLE}\r\n");
    for (target, fields, status) in [
        (VICTIM, "Host: api.svc.localhost\r\n".to_owned(), 200),
        (VICTIM, "Host: engine.svc.localhost\r\n".to_owned(), 421),
        (VICTIM, "Host: evil.example\r\n".to_owned(), 421),
        (VICTIM, format!("{own}{own}"), 400),
        (VICTIM, format!("{own}Host: api.svc.localhost\r\n"), 400),
        (VICTIM, format!("Host: {CONSOLE}/x\r\n"), 400),
        ("https://api.svc.localhost/_app/immutable/victim.js", own.clone(), 400),
        // Names are written by the edge alone, for requests that have one.
        ("/api/me", format!("{own}X-Svc-Cache-Name: identity {CONSOLE} {VICTIM}\r\n"), 200),
        (
            "/api/me",
            format!("{own}X-Svc-Cache-Name: identity {CONSOLE} {VICTIM}\r\nConnection: x-svc-cache-name\r\n"),
            200,
        ),
        ("/api/me", format!("{own}X-Original-Url: {VICTIM}\r\nX-Rewrite-Url: {VICTIM}\r\n"), 200),
    ] {
        let answer = send(&world, target, &fields).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{target} {fields}: {answer}");
    }
    assert!(upstream.asked().iter().all(|asked| !asked.headers.contains_key("x-svc-cache-name")));
    let before = upstream.count(VICTIM);
    // Whoever asks first has no say in what the others get.
    let first = send(
        &world,
        VICTIM,
        &format!(
            "Host: APP.svc.localhost.:1234\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: http\r\n\
             Accept-Encoding: identity\r\nX-Svc-Cache-Name: br {CONSOLE} /other\r\nRange: bytes=1-2\r\nCookie: a=b\r\n"
        ),
    )
    .await;
    assert!(first.starts_with("HTTP/1.1 206"), "{first}");
    let asked = upstream.asked().pop().unwrap();
    assert_eq!((asked.target.as_str(), asked.headers["x-forwarded-proto"].to_str().unwrap()), (VICTIM, "https"));
    for gone in ["range", "cookie", "x-svc-cache-name"] {
        assert!(!asked.headers.contains_key(gone), "{gone}");
    }
    world.edge().get(&console(VICTIM)).await.assert_body(200, VICTIM);
    assert_eq!(upstream.count(VICTIM), before + 1);
    assert!(super::counted(port, "hit").await > 0.5);
    // Over HTTP/2 the authority and the field must agree.
    let answer = world.edge().get(&console(VICTIM)).header("host", "engine.svc.localhost").await;
    assert!([400, 421].contains(&answer.status.as_u16()), "{answer:?}");
    world.edge().get(&console(VICTIM)).await.assert_body(200, VICTIM);
}

#[tokio::test]
async fn reads_with_a_body_writes_and_plain_http_pass_the_cache_by() {
    let upstream = Upstream::start().await;
    let builder = World::builder().set("EDGE__ADMIN_UPSTREAMS", &upstream.address);
    let world = builder.set("EDGE__HTTP_MODE", "serve").start().await;
    for _ in 0..2 {
        let fields = format!("Host: {CONSOLE}\r\nContent-Length: 2\r\n");
        let config = Arc::new(tls(world.ca(), &[&TLS13], &["http/1.1"]));
        let mut stream = connect_tls(world.public_port(), CONSOLE, config).await.unwrap();
        let request = format!("GET {VICTIM} HTTP/1.1\r\n{fields}Connection: close\r\n\r\nhi");
        let answer = String::from_utf8_lossy(&converse(&mut stream, request.as_bytes()).await).into_owned();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        world.edge().post(&console(VICTIM)).await.assert_status(200);
        world.edge().get(&format!("http://{CONSOLE}{VICTIM}")).await.assert_status(200);
    }
    assert_eq!(upstream.count(VICTIM), 6);
}
