//! Replaces hyper's own responses without a body: by a page for a head with too many cookies, and by an explanation for
//! a malformed head.
//!
//! hyper refuses an oversized head with a bare 431, and offers no hook. A browser would be locked out until its user
//! finds out how to delete cookies: see `h2::oversized`, which does the same for HTTP/2. Nothing of the head is kept:
//! hyper's response shows that it was too large, and [`HeadFindings`] that cookies were the cause. A malformed head gets only
//! a 400; it mostly has an address with characters that browsers encode and programs often do not.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use front::ResponseForm;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::heads::HeadFindings;

/// The start of hyper's response to an oversized head. No other response over HTTP/1.1 has this status.
const REFUSAL: &[u8] = b"HTTP/1.1 431 ";

/// The start of hyper's response to a malformed head, and of the edge's own, which have a `Server` header.
const MALFORMED: &[u8] = b"HTTP/1.1 400 ";
/// A header of hyper's own responses.
const WITHOUT_BODY: &[u8] = b"content-length: 0\r\n";
const SERVER: &[u8] = b"\r\nserver: ";
const WHY_MALFORMED: &str = "The request is malformed. In an address, characters such as < > \" ` and spaces are sent percent-encoded: \
                             %3C %3E %22 %60 %20.\n";

/// A stream for hyper that replaces such responses.
pub(super) struct RefusalRewriter<S> {
    inner: S,
    /// The heads, and the form of the response to oversized ones; `None` if we may not clear the cookies.
    watch: Option<(Arc<HeadFindings>, ResponseForm)>,
    /// Set with the page, so that the connection lingers for it.
    had_body: Arc<AtomicBool>,
    page: Option<Box<PendingPage>>,
}

struct PendingPage {
    bytes: Vec<u8>,
    written: usize,
}

impl<S> RefusalRewriter<S> {
    /// Wraps a stream whose heads are inspected, if we may clear cookies. Sets `had_body` if a page was sent.
    pub(super) fn new(inner: S, watch: Option<(Arc<HeadFindings>, ResponseForm)>, had_body: Arc<AtomicBool>) -> Self {
        Self { inner, watch, had_body, page: None }
    }

    /// Returns whether `bytes` are a refusal of hyper's that is replaced.
    fn is_replaced(&mut self, bytes: &[u8]) -> bool {
        if self.page.is_some() {
            return true;
        }
        let cookies =
            self.watch.take_if(|(heads, _)| bytes.starts_with(REFUSAL) && heads.cookies.load(Ordering::Relaxed));
        let answer = match cookies {
            // Sent only once.
            Some((_, form)) => answer(form),
            None if is_malformed(bytes) => malformed(),
            None => return false,
        };
        self.page = Some(Box::new(PendingPage { bytes: answer, written: 0 }));
        true
    }
}

impl<S: AsyncWrite + Unpin> RefusalRewriter<S> {
    /// Writes the page, and then reports `instead_of` bytes of hyper's as written.
    fn poll_page(&mut self, cx: &mut Context<'_>, instead_of: usize) -> Poll<io::Result<usize>> {
        let Some(page) = &mut self.page else { return Poll::Ready(Ok(instead_of)) };
        self.had_body.store(true, Ordering::Relaxed);
        while page.written < page.bytes.len() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, &page.bytes[page.written..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            page.written += written;
        }
        self.page = None;
        Poll::Ready(Ok(instead_of))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RefusalRewriter<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RefusalRewriter<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_replaced(buf) {
            return self.poll_page(cx, buf.len());
        }
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(first) = bufs.iter().find(|buf| !buf.is_empty())
            && self.is_replaced(first)
        {
            return self.poll_page(cx, first.len());
        }
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Returns whether `bytes` are hyper's own response to a malformed head.
fn is_malformed(bytes: &[u8]) -> bool {
    bytes.starts_with(MALFORMED)
        && memchr::memmem::find(bytes, WITHOUT_BODY).is_some()
        && memchr::memmem::find(bytes, SERVER).is_none()
}

/// Returns the response that explains a malformed head, after which the connection closes.
fn malformed() -> Vec<u8> {
    format!(
        "HTTP/1.1 400 Bad Request\r\nconnection: close\r\nserver: {}\r\ncontent-type: text/plain; charset=utf-8\r\n\
         x-content-type-options: nosniff\r\ncache-control: no-store\r\ncontent-length: {}\r\n\r\n{WHY_MALFORMED}",
        domain::BRAND,
        WHY_MALFORMED.len()
    )
    .into_bytes()
}

/// Returns the head and the body of the page, after which the connection closes.
fn answer(form: ResponseForm) -> Vec<u8> {
    let (headers, html) = front::cookies_too_large(form);
    let mut bytes = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n".to_vec();
    for (name, value) in headers.iter().filter(|(name, _)| *name != http::header::CONTENT_LENGTH) {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend(format!("content-length: {}\r\n\r\n", html.len()).bytes());
    bytes.extend(html);
    bytes
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Empty;
    use hyper::{body::Incoming, service::service_fn};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::http::h1::{ParkableConnection, watched};

    /// Returns the response to a request with `lines` in its head, on a connection that has answered a request before.
    async fn answered(own_form: Option<ResponseForm>, lines: &str) -> String {
        let (mut near, far) = tokio::io::duplex(64 * 1024);
        let answer = |_: Request<Incoming>| async move { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) };
        let stream = watched(far, own_form, Arc::default(), Arc::default());
        let served = tokio::spawn(ParkableConnection::new(
            stream,
            service_fn(move |request| Box::pin(answer(request))),
            Arc::default(),
        ));
        near.write_all(b"GET / HTTP/1.1\r\nhost: a.de\r\n\r\n").await.unwrap();
        let mut first = [0; 17];
        near.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200 OK\r\n");
        let request = format!("GET / HTTP/1.1\r\nhost: a.de\r\n{lines}connection: close\r\n\r\n");
        // The request may be refused before all of it was sent.
        let _ = near.write_all(request.as_bytes()).await;
        let mut answer = String::new();
        near.read_to_string(&mut answer).await.unwrap();
        drop(near);
        served.await.unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    #[tokio::test]
    async fn an_address_that_is_not_encoded_is_answered_with_words() {
        for target in ["/a<b", "/a>b", "/a`b", "/?a\"b", "/?<", "/a b", "http://"] {
            let (mut near, far) = tokio::io::duplex(64 * 1024);
            let answer =
                |_: Request<Incoming>| async move { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) };
            let stream = watched(far, None, Arc::default(), Arc::default());
            let served = tokio::spawn(ParkableConnection::new(
                stream,
                service_fn(move |request| Box::pin(answer(request))),
                Arc::default(),
            ));
            near.write_all(format!("GET {target} HTTP/1.1\r\nhost: a.de\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = String::new();
            near.read_to_string(&mut answer).await.unwrap();
            drop(near);
            served.await.unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\nconnection: close\r\n"), "{target}: {head}");
            assert!(head.contains(&format!("content-length: {}", body.len())), "{target}: {head}");
            assert_eq!(body, WHY_MALFORMED, "{target}");
        }
    }

    fn cookies(lines: usize, bytes: usize) -> String {
        (0..lines).map(|n| format!("Cookie: c{n}={}\r\n", "a".repeat(bytes))).collect::<Vec<_>>().concat()
    }

    #[tokio::test]
    async fn a_head_of_cookies_is_answered_with_a_page_that_clears_them() {
        // hyper reads up to the end of its buffer, and accepts what is complete.
        for (lines, bytes) in [(1, 70_000), (1, 700_000), (17, 4_000), (90, 700)] {
            let answer = answered(Some(ResponseForm::Page), &cookies(lines, bytes)).await;
            let (head, page) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 431 "), "{lines} of {bytes}: {head}");
            assert!(head.contains("clear-site-data: \"cookies\"") && head.contains("connection: close"), "{head}");
            assert!(head.contains(&format!("content-length: {}", page.len())), "{head}");
            assert!(page.contains("Too many cookies"), "{page}");
        }
        let answer = answered(Some(ResponseForm::Api), &cookies(1, 70_000)).await;
        assert!(answer.contains("clear-site-data: \"cookies\"") && answer.contains("x-request-id: req_"), "{answer}");
        assert!(answer.contains("{\"error\":{\"code\":\"invalid_request\""), "{answer}");
    }

    #[tokio::test]
    async fn other_heads_clear_nothing() {
        let long = format!("x-long: {}\r\n", "a".repeat(70_000));
        let mixed = format!("{}{long}", cookies(1, 4_000));
        let own = Some(ResponseForm::Page);
        for (own_form, lines) in [(own, long), (own, mixed), (None, cookies(1, 70_000))] {
            let answer = answered(own_form, &lines).await;
            assert!(answer.starts_with("HTTP/1.1 431 ") && !answer.contains("clear-site-data"), "{answer}");
        }
        assert!(answered(own, &cookies(7, 4_000)).await.starts_with("HTTP/1.1 200 "), "it is not too large");
    }
}
