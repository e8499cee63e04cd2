//! Methods: sites answer GET and HEAD only.

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
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS, Method::TRACE] {
        for path in ["/", "/nothing"] {
            let answer = world.edge().request(method.clone(), &format!("{url}{path}")).await.assert_status(405);
            let allow = answer.header("allow");
            assert!(allow.contains("GET") && allow.contains("HEAD"), "{allow}");
        }
    }
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
