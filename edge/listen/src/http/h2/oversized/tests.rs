use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming as Body, client, server, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::*;

/// Sends a request with such cookies and path. Returns the status, and whether the response clears cookies.
async fn ask(own_form: Option<ResponseForm>, cookies: usize, bytes: usize, path: usize) -> Option<(u16, bool)> {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let answer = |_: Request<Body>| async move { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) };
    let stream = CookieHeadGuard::new(far, own_form);
    let mut builder = server::conn::http2::Builder::new(TokioExecutor::new());
    builder.max_header_list_size(limits::H2_HEAD_BYTES);
    tokio::spawn(builder.serve_connection(TokioIo::new(stream), service_fn(answer)));
    let mut builder = client::conn::http2::Builder::new(TokioExecutor::new());
    builder.max_header_list_size(u32::MAX);
    let (mut sender, connection) = builder.handshake(TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::get(format!("https://a.de/{}", "p".repeat(path)));
    for n in 0..cookies {
        request = request.header("cookie", format!("c{n}={}", "a".repeat(bytes)));
    }
    let response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.ok()?;
    let clears = response.headers().get("clear-site-data").is_some_and(|what| what == "\"cookies\"");
    let (status, body) = (response.status(), response.into_body().collect().await.unwrap().to_bytes());
    assert_eq!(status == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE && clears, !body.is_empty());
    Some((status.as_u16(), clears))
}

#[tokio::test]
async fn heads_that_cookies_made_too_large_are_answered_and_the_cookies_cleared() {
    for (cookies, bytes) in [(180, 4_000), (9, 3_900), (60, 600), (170, 150), (20, 4_096)] {
        assert_eq!(ask(Some(ResponseForm::Page), cookies, bytes, 10).await, Some((431, true)), "{cookies} of {bytes}");
    }
}

#[tokio::test]
async fn what_is_not_too_large_passes() {
    for (cookies, bytes) in [(0, 0), (1, 4_000), (5, 4_000), (40, 500), (180, 60)] {
        assert_eq!(ask(Some(ResponseForm::Page), cookies, bytes, 10).await, Some((200, false)), "{cookies} of {bytes}");
    }
}

#[tokio::test]
async fn a_long_address_clears_nothing() {
    for path in [10_000, 40_000, 60_000] {
        let answered = ask(Some(ResponseForm::Page), 3, 100, path).await;
        assert!(answered.is_none_or(|(_, clears)| !clears), "{path}: {answered:?}");
    }
}

#[tokio::test]
async fn cookies_of_other_domains_are_not_ours_to_clear() {
    let answered = ask(None, 180, 4_000, 10).await;
    assert!(answered.is_none_or(|(_, clears)| !clears), "{answered:?}");
}

#[test]
fn lengths_are_read_wherever_the_frames_are_cut() {
    let mut head = head(&HeaderMap::new());
    head.extend([0x82, 0x20, 0x3f, 0xe1, 0x1f, 0x7f, 0x80, 0x01]);
    write_text(&mut head, &[b'x'; 300]);
    head.push(0x40);
    write_text(&mut head, b"name");
    write_text(&mut head, b"");
    head.push(0x60);
    write_text(&mut head, &[b'y'; 200]);
    for cut in 0..head.len() {
        let mut fields = HpackLengths::default();
        fields.read(&head[..cut]);
        fields.read(&head[cut..]);
        assert_eq!(fields.longest, 300, "cut at {cut}");
        assert!(matches!(fields.at, HpackPosition::Field), "cut at {cut}");
    }
}
