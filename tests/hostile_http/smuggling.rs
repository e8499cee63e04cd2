//! Request smuggling, and header fields that are not for the platform.

use super::{API, SITE, assert_alive, connect, world_with_sites};
use crate::world::socket::{converse, statuses};

#[tokio::test]
async fn ambiguous_framing_smuggles_nothing() {
    let world = world_with_sites().await;
    for host in [SITE, API] {
        let smuggled = "GET /smuggled HTTP/1.1\r\nhost: victim.svc.localhost\r\nx: y";
        for (what, request) in [
            (
                "CL.TE",
                format!(
                    "POST / HTTP/1.1\r\nhost: {host}\r\ncontent-length: {}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}\r\n\r\n",
                    5 + smuggled.len()
                ),
            ),
            (
                "TE.CL",
                format!(
                    "POST / HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n{:x}\r\n{smuggled}\r\n0\r\n\r\n",
                    smuggled.len()
                ),
            ),
            (
                "two codings",
                format!(
                    "POST / HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n{smuggled}\r\n\r\n"
                ),
            ),
            (
                "a bad chunk size",
                format!(
                    "POST / HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n{smuggled}\r\n\r\n"
                ),
            ),
            (
                "a wide chunk size",
                format!(
                    "POST / HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n{smuggled}\r\n\r\n"
                ),
            ),
            (
                "upgrade with early bytes",
                format!(
                    "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: upgrade\r\nupgrade: websocket\r\ncontent-length: {}\r\n\r\n{smuggled}",
                    smuggled.len()
                ),
            ),
        ] {
            let mut stream = connect(&world, host, "http/1.1").await;
            let request = format!("{request}GET /after HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            let answer = converse(&mut stream, request.as_bytes()).await;
            let text = String::from_utf8_lossy(&answer);
            assert!(!text.contains("the victim"), "{host}: {what}: {text}");
        }
    }
    assert_alive(&world).await;
}

#[tokio::test]
async fn hop_headers_do_not_strip_what_the_platform_adds() {
    let world = world_with_sites().await;
    let ada = world.user("ada").await;
    let ask = async |hop_fields: &str| {
        let request = format!(
            "GET /me HTTP/1.1\r\nhost: {API}\r\nauthorization: Bearer {}\r\nconnection: close, {hop_fields}\r\n\r\n",
            ada.token.as_deref().unwrap()
        );
        let mut stream = connect(&world, API, "http/1.1").await;
        statuses(&converse(&mut stream, request.as_bytes()).await)
    };
    assert_eq!(ask("x-forwarded-for, x-forwarded-proto").await, [200]);
    // A field of the client's own that it declares to be of one hop is not passed on.
    assert_eq!(ask("authorization, x-forwarded-for, x-forwarded-proto").await, [401]);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let world = world_with_sites().await;
    let get = |path: &str, close: &str| format!("GET {path} HTTP/1.1\r\nhost: {SITE}\r\nconnection: {close}\r\n\r\n");
    let mut stream = connect(&world, SITE, "http/1.1").await;
    let requests = [get("/", "keep-alive"), get("/nothing.txt", "keep-alive"), get("/data.txt", "close")].concat();
    let answer = converse(&mut stream, requests.as_bytes()).await;
    assert_eq!(statuses(&answer), [200, 404, 200], "{}", String::from_utf8_lossy(&answer));
    assert!(answer.ends_with(b"data"));
}

#[tokio::test]
async fn a_get_with_a_body_does_not_derail_the_connection() {
    let world = world_with_sites().await;
    let body = "GET /smuggled HTTP/1.1\r\nhost: victim.svc.localhost\r\n\r\n";
    let request = format!(
        "GET / HTTP/1.1\r\nhost: {SITE}\r\ncontent-length: {}\r\n\r\n{body}GET /data.txt HTTP/1.1\r\nhost: {SITE}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = connect(&world, SITE, "http/1.1").await;
    let answer = converse(&mut stream, request.as_bytes()).await;
    let text = String::from_utf8_lossy(&answer);
    assert!(!text.contains("the victim"), "{text}");
    assert_eq!(statuses(&answer), [200, 200], "{text}");
}

#[tokio::test]
async fn a_length_said_in_two_ways_is_refused() {
    let world = world_with_sites().await;
    for host in [SITE, API, "ai.svc.localhost", "app.svc.localhost", "nobody.svc.localhost"] {
        for method in ["GET", "HEAD", "POST", "PUT"] {
            for (first, second) in [
                ("Content-Length: 5", "Transfer-Encoding: chunked"),
                ("Transfer-Encoding: chunked", "Content-Length: 5"),
                ("transfer-encoding: chunked", "x: y\r\nCONTENT-LENGTH:0"),
            ] {
                let before = format!("GET /data.txt HTTP/1.1\r\nhost: {host}\r\n\r\n");
                let request =
                    format!("{method} /data.txt HTTP/1.1\r\nhost: {host}\r\n{first}\r\n{second}\r\n\r\n0\r\n\r\n");
                let mut stream = connect(&world, host, "http/1.1").await;
                let answer = converse(&mut stream, request.as_bytes()).await;
                let text = String::from_utf8_lossy(&answer);
                assert_eq!(statuses(&answer), [400], "{method} {host}, {first}: {text}");
                assert!(!text.ends_with("data"), "{text}");
                // Neither when it comes behind a request in order, in the same breath.
                let mut stream = connect(&world, host, "http/1.1").await;
                let found = statuses(&converse(&mut stream, [before, request].concat().as_bytes()).await);
                assert_eq!(found.last(), Some(&400), "{method} {host}, {first}: {found:?}");
            }
        }
    }
    assert_alive(&world).await;
}

#[tokio::test]
async fn a_body_in_chunks_is_taken() {
    let world = world_with_sites().await;
    let ada = world.user("ada").await;
    let body = r#"{"kind":"cli","label":"in chunks"}"#;
    let request = format!(
        "POST /tokens HTTP/1.1\r\nhost: {API}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        ada.token.as_deref().unwrap(),
        body.len()
    );
    let mut stream = connect(&world, API, "http/1.1").await;
    let answer = converse(&mut stream, request.as_bytes()).await;
    assert_eq!(statuses(&answer), [201], "{}", String::from_utf8_lossy(&answer));
}
