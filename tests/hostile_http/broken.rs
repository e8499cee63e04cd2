//! Requests that are not valid HTTP.

use std::fmt::Write as _;

use super::{API, SITE, assert_alive, connect, world_with_sites};
use crate::world::socket::{converse, statuses};

/// Broken requests that any server must refuse. `{host}` is the host spoken to.
fn broken_requests() -> Vec<(&'static str, String)> {
    let smuggled = "GET /smuggled HTTP/1.1\r\nhost: victim.svc.localhost\r\n\r\n";
    vec![
        (
            "two lengths",
            format!("POST / HTTP/1.1\r\nhost: {{host}}\r\ncontent-length: 0\r\ncontent-length: 5\r\n\r\n{smuggled}"),
        ),
        ("a list of lengths", format!("POST / HTTP/1.1\r\nhost: {{host}}\r\ncontent-length: 0, 5\r\n\r\n{smuggled}")),
        ("a signed length", format!("POST / HTTP/1.1\r\nhost: {{host}}\r\ncontent-length: +5\r\n\r\n{smuggled}")),
        ("a hexadecimal length", format!("POST / HTTP/1.1\r\nhost: {{host}}\r\ncontent-length: 0x5\r\n\r\n{smuggled}")),
        (
            "an enormous length",
            "POST / HTTP/1.1\r\nhost: {host}\r\ncontent-length: 99999999999999999999999\r\n\r\n".into(),
        ),
        (
            "an unknown coding",
            format!("POST / HTTP/1.1\r\nhost: {{host}}\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n{smuggled}"),
        ),
        (
            "chunked not last",
            format!(
                "POST / HTTP/1.1\r\nhost: {{host}}\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n{smuggled}"
            ),
        ),
        (
            "a coding after a tab",
            format!("POST / HTTP/1.1\r\nhost: {{host}}\r\ntransfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n{smuggled}"),
        ),
        (
            "a space before the colon",
            format!("POST / HTTP/1.1\r\nhost: {{host}}\r\ntransfer-encoding : chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        ),
        (
            "HTTP/1.0 with a coding",
            format!("POST / HTTP/1.0\r\nhost: {{host}}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        ),
        ("a folded header", "GET / HTTP/1.1\r\nhost: {host}\r\nx-folded: a\r\n b\r\nconnection: close\r\n\r\n".into()),
        (
            "two hosts",
            "GET / HTTP/1.1\r\nhost: {host}\r\nhost: victim.svc.localhost\r\nconnection: close\r\n\r\n".into(),
        ),
        ("no host", "GET / HTTP/1.1\r\nconnection: close\r\n\r\n".into()),
        ("a host with a path", "GET / HTTP/1.1\r\nhost: {host}/x\r\nconnection: close\r\n\r\n".into()),
        ("a host with a user", "GET / HTTP/1.1\r\nhost: x@{host}\r\nconnection: close\r\n\r\n".into()),
        (
            "another absolute form",
            "GET https://victim.svc.localhost/ HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".into(),
        ),
        ("a NUL in a header", "GET / HTTP/1.1\r\nhost: {host}\r\nx-nul: a\0b\r\nconnection: close\r\n\r\n".into()),
        ("a CR in a header", "GET / HTTP/1.1\r\nhost: {host}\r\nx-cr: a\rb\r\nconnection: close\r\n\r\n".into()),
        ("a NUL in the path", "GET /\0 HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".into()),
        ("a space in the path", "GET /a b HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".into()),
        ("a strange version", "GET / HTTP/9.9\r\nhost: {host}\r\nconnection: close\r\n\r\n".into()),
        ("a method with a brace", "G{T / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".into()),
        ("not HTTP at all", "HELO {host}\r\n\r\n".into()),
        (
            "a 200 KB header",
            format!("GET / HTTP/1.1\r\nhost: {{host}}\r\nx-big: {}\r\nconnection: close\r\n\r\n", "x".repeat(200_000)),
        ),
        (
            "a 200 KB path",
            format!("GET /{} HTTP/1.1\r\nhost: {{host}}\r\nconnection: close\r\n\r\n", "x".repeat(200_000)),
        ),
        (
            "5,000 headers",
            format!("GET / HTTP/1.1\r\nhost: {{host}}\r\n{}connection: close\r\n\r\n", "x: y\r\n".repeat(5_000)),
        ),
        ("CONNECT", "CONNECT victim.svc.localhost:443 HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".into()),
    ]
}

#[tokio::test]
async fn broken_requests_are_refused() {
    let world = world_with_sites().await;
    let mut failures = String::new();
    for host in [SITE, API] {
        for (what, request) in broken_requests() {
            let mut stream = connect(&world, host, "http/1.1").await;
            let answer = converse(&mut stream, request.replace("{host}", host).as_bytes()).await;
            let found = statuses(&answer);
            let text = String::from_utf8_lossy(&answer);
            if found.len() > 1 || found.iter().any(|status| !(400..500).contains(status)) || text.contains("the victim")
            {
                writeln!(failures, "{host}: {what}: {found:?}").unwrap();
            }
        }
    }
    assert!(failures.is_empty(), "not refused:\n{failures}");
    // What no file can be called is a route or nothing at a site, whatever it decodes to, and refused by the API.
    for path in ["/%00", "/%zz", "/%ff%fe", "/%2e%2e%2fdata.txt", "/..%5cdata.txt"] {
        for (host, wanted) in [(SITE, &[200, 404][..]), (API, &[400, 404])] {
            let mut stream = connect(&world, host, "http/1.1").await;
            let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            let answer = converse(&mut stream, request.as_bytes()).await;
            let found = statuses(&answer);
            assert!(found.len() == 1 && wanted.contains(&found[0]), "{host}{path}: {found:?}");
            assert!(!answer.ends_with(b"data"), "{host}{path}");
        }
    }
    assert_alive(&world).await;
}
