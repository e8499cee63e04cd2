//! Methods: sites answer GET, HEAD and OPTIONS only.

use std::sync::Arc;

use reqwest::Method;
use rustls::version::TLS13;
use tokio::io::AsyncWriteExt as _;

use super::{docs, world_with};
use crate::world::{
    site::noise,
    socket::{connect_tls, converse, statuses, tls},
};

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
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::TRACE] {
        for path in ["/", "/nothing"] {
            let answer = world.edge().request(method.clone(), &format!("{url}{path}")).await.assert_status(405);
            let allow = answer.header("allow");
            assert!(allow.contains("GET") && allow.contains("HEAD"), "{allow}");
        }
    }
}

#[tokio::test]
async fn options_tell_other_origins_what_the_site_says_and_nothing_of_a_gate() {
    let headers =
        "/api/*\n  Access-Control-Allow-Origin: *\n  Access-Control-Allow-Headers: X-Token\n  X-Frame-Options: DENY\n";
    let (world, url) = world_with(docs().file("_headers", headers).file("api/data.json", "{}")).await;
    let ask = async |path: &str| {
        let request =
            world.edge().request(Method::OPTIONS, &format!("{url}{path}")).header("origin", "https://x.example");
        request.header("access-control-request-method", "GET").await.assert_body(204, "")
    };
    for (path, allowed) in
        [("/api/data.json", Some("X-Token")), ("/api/none", Some("X-Token")), ("/guide", None), ("/nothing", None)]
    {
        let answer = ask(path).await;
        assert_eq!(answer.header("allow"), "GET, HEAD, OPTIONS", "{path}");
        assert_eq!(answer.find_header("access-control-allow-headers"), allowed, "{path}");
        assert_eq!((answer.find_header("x-frame-options"), answer.find_header("location")), (None, None), "{path}");
    }
    let ada = world.user("ada").await;
    ada.put("/projects/engine/password").json(&serde_json::json!({ "password": "hunter22" })).await.ok();
    let gated = ask("/api/data.json").await;
    assert_eq!(gated.header("allow"), "GET, HEAD, OPTIONS");
    assert_eq!(gated.find_header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn whoever_sends_a_body_that_nobody_wants_hears_405() {
    let (world, url) = world_with(docs()).await;
    let host = "engine.svc.localhost";
    for megabytes in [2, 30] {
        let body = noise(megabytes * 1024 * 1024);
        // Over HTTP/2.
        world.edge().post(&url).body(body.clone()).await.assert_status(405);
        // A client that first sends all of it, and only then listens.
        let mut request =
            format!("POST / HTTP/1.1\r\nhost: {host}\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
        request.extend(&body);
        let config = Arc::new(tls(world.ca(), &[&TLS13], &["http/1.1"]));
        let mut stream = connect_tls(world.public_port(), host, config).await.unwrap();
        stream.write_all(&request).await.expect("all of it is taken");
        stream.flush().await.unwrap();
        let answer = converse(&mut stream, b"").await;
        assert_eq!(statuses(&answer), [405], "{megabytes} MB");
    }
}
