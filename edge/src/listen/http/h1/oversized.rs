//! Puts answers with a body in the place of hyper's own: a page for a head that cookies have made too large, and words for one that is
//! malformed.
//!
//! hyper refuses such a head with a 431 that has no body, and asks nobody. A browser would be kept out until its person finds
//! where cookies are deleted: see `h2::oversized`, which does for HTTP/2 what is done here. Nothing of the head is kept: hyper says
//! that it was too large, and [`Heads`] that it was cookies. Of a malformed head hyper says nothing but 400; what is most often wrong is an
//! address with characters that a browser would have encoded, and a program would not.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::heads::Heads;
use crate::front::{self, Form};

/// The beginning of hyper's answer to a head that is too large. Nothing else answers with this status over HTTP/1.1.
const REFUSAL: &[u8] = b"HTTP/1.1 431 ";

/// The beginning of hyper's answer to a head that is malformed, and of answers of the edge's, which have a `Server`.
const MALFORMED: &[u8] = b"HTTP/1.1 400 ";
/// The fields of hyper's own answers.
const WITHOUT_BODY: &[u8] = b"content-length: 0\r\n";
const SERVER: &[u8] = b"\r\nserver: ";
/// What is said of a malformed head.
const WHY_MALFORMED: &str = "The request is malformed. In an address, characters such as < > \" ` and spaces are sent percent-encoded: \
                             %3C %3E %22 %60 %20.\n";

/// The stream to give to hyper.
pub(super) struct Oversized<S> {
    inner: S,
    /// The heads, and the form of the answer to those that are too large; none where cookies are not ours to clear.
    watch: Option<(Arc<Heads>, Form)>,
    /// Set with the page, so that the connection's end does not eat it.
    had_body: Arc<AtomicBool>,
    page: Option<Box<Page>>,
}

/// The page that is being written.
struct Page {
    bytes: Vec<u8>,
    written: usize,
}

impl<S> Oversized<S> {
    /// Around a stream whose heads are watched, where cookies are ours to clear. Sets `had_body` if a page was sent.
    pub(super) fn new(inner: S, watch: Option<(Arc<Heads>, Form)>, had_body: Arc<AtomicBool>) -> Self {
        Self { inner, watch, had_body, page: None }
    }

    /// Whether hyper is about to refuse a head with `bytes`, in the place of which something else is written.
    fn is_replaced(&mut self, bytes: &[u8]) -> bool {
        if self.page.is_some() {
            return true;
        }
        let cookies =
            self.watch.take_if(|(heads, _)| bytes.starts_with(REFUSAL) && heads.cookies.load(Ordering::Relaxed));
        let answer = match cookies {
            // It is said once.
            Some((_, form)) => answer(form),
            None if is_malformed(bytes) => malformed(),
            None => return false,
        };
        self.page = Some(Box::new(Page { bytes: answer, written: 0 }));
        true
    }
}

impl<S: AsyncWrite + Unpin> Oversized<S> {
    /// Writes the page, and then says that so many bytes of hyper's were written.
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

impl<S: AsyncRead + Unpin> AsyncRead for Oversized<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Oversized<S> {
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

/// Whether `bytes` are hyper's own answer to a malformed head.
fn is_malformed(bytes: &[u8]) -> bool {
    bytes.starts_with(MALFORMED)
        && memchr::memmem::find(bytes, WITHOUT_BODY).is_some()
        && memchr::memmem::find(bytes, SERVER).is_none()
}

/// The answer that says what may be wrong with a head, after which the connection closes.
fn malformed() -> Vec<u8> {
    format!(
        "HTTP/1.1 400 Bad Request\r\nconnection: close\r\nserver: {}\r\ncontent-type: text/plain; charset=utf-8\r\n\
         x-content-type-options: nosniff\r\ncache-control: no-store\r\ncontent-length: {}\r\n\r\n{WHY_MALFORMED}",
        domain::BRAND,
        WHY_MALFORMED.len()
    )
    .into_bytes()
}

/// The head and the body of the page, after which the connection closes.
fn answer(form: Form) -> Vec<u8> {
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
    use crate::listen::http::h1::{Parkable, watched};

    /// The answer to a request with `lines` in its head, on a connection that has answered another request before.
    async fn answered(own_form: Option<Form>, lines: &str) -> String {
        let (mut near, far) = tokio::io::duplex(64 * 1024);
        let answer = |_: Request<Incoming>| async move { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) };
        let stream = watched(far, own_form, Arc::default(), Arc::default());
        let served =
            tokio::spawn(Parkable::new(stream, service_fn(move |request| Box::pin(answer(request))), Arc::default()));
        near.write_all(b"GET / HTTP/1.1\r\nhost: a.de\r\n\r\n").await.unwrap();
        let mut first = [0; 17];
        near.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200 OK\r\n");
        let request = format!("GET / HTTP/1.1\r\nhost: a.de\r\n{lines}connection: close\r\n\r\n");
        // It may be refused before all of it was sent.
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
            let served = tokio::spawn(Parkable::new(
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
        // hyper reads on to the end of its buffer, and takes what is there in full.
        for (lines, bytes) in [(1, 70_000), (1, 700_000), (17, 4_000), (90, 700)] {
            let answer = answered(Some(Form::Page), &cookies(lines, bytes)).await;
            let (head, page) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 431 "), "{lines} of {bytes}: {head}");
            assert!(head.contains("clear-site-data: \"cookies\"") && head.contains("connection: close"), "{head}");
            assert!(head.contains(&format!("content-length: {}", page.len())), "{head}");
            assert!(page.contains("Too many cookies"), "{page}");
        }
        let answer = answered(Some(Form::Api), &cookies(1, 70_000)).await;
        assert!(answer.contains("clear-site-data: \"cookies\"") && answer.contains("x-request-id: req_"), "{answer}");
        assert!(answer.contains("{\"error\":{\"code\":\"invalid_request\""), "{answer}");
    }

    #[tokio::test]
    async fn other_heads_clear_nothing() {
        let long = format!("x-long: {}\r\n", "a".repeat(70_000));
        let mixed = format!("{}{long}", cookies(1, 4_000));
        let own = Some(Form::Page);
        for (own_form, lines) in [(own, long), (own, mixed), (None, cookies(1, 70_000))] {
            let answer = answered(own_form, &lines).await;
            assert!(answer.starts_with("HTTP/1.1 431 ") && !answer.contains("clear-site-data"), "{answer}");
        }
        assert!(answered(own, &cookies(7, 4_000)).await.starts_with("HTTP/1.1 200 "), "it is not too large");
    }
}
