//! Drops hyper while a connection idles: its two buffers take as much memory as the rest of the connection, and most
//! connections idle between two requests.
//!
//! hyper does not report when it idles, but it waits for each head with a timer of ours, so [`IdleWatch`] knows. Some time
//! after the wait started, if nothing of the head was read and nothing of the last response remains to be written,
//! hyper holds no state that a new instance would lack.

use std::{
    io::{self, IoSlice},
    mem,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use http_body::Body;
use http_types::BodyError;
use hyper::{body::Incoming, server::conn::http1, service::HttpService};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    builder,
    patience::{BoxedSleep, HeadTimer},
};

/// Indicators of whether hyper is idle, set by the timer and the stream, and read by [`ParkableConnection`], in one task.
#[derive(Default)]
pub(super) struct IdleWatch {
    /// Whether the wait for a head has lasted for [`limits::PARK_IDLE_AFTER`].
    pub(super) is_due: AtomicBool,
    /// Whether anything was read since the wait for a head started.
    pub(super) has_read: AtomicBool,
    is_blocked: AtomicBool,
}

/// An HTTP/1.1 connection that is parked while it idles. Completes when the connection has ended.
pub(in crate::http) struct ParkableConnection<S, V: HttpService<Incoming>> {
    state: ParkingState<S, V>,
    watch: Arc<IdleWatch>,
    timer: HeadTimer,
    /// Set by a request with a body, some of which hyper may still expect.
    had_body: Arc<AtomicBool>,
    /// Whether hyper was dropped although it had read something, which must not be repeated.
    is_busy: bool,
}

enum ParkingState<S, V: HttpService<Incoming>> {
    Served(Box<http1::Connection<TokioIo<WatchedStream<S>>, V>>),
    Parked(Box<ParkedConnection<S, V>>),
    Ending(Box<S>),
    Over,
}

struct ParkedConnection<S, V> {
    stream: S,
    service: V,
    over: BoxedSleep,
}

/// The stream for hyper, which first returns what was read while it was parked.
struct WatchedStream<S> {
    inner: S,
    first: Bytes,
    watch: Arc<IdleWatch>,
}

impl IdleWatch {
    fn is_idle(&self) -> bool {
        self.is_due.swap(false, Ordering::Relaxed)
            && !self.has_read.load(Ordering::Relaxed)
            && !self.is_blocked.load(Ordering::Relaxed)
    }

    fn noted<T>(&self, written: Poll<T>) -> Poll<T> {
        self.is_blocked.store(written.is_pending(), Ordering::Relaxed);
        written
    }
}

impl<S, V> ParkableConnection<S, V>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
    V: HttpService<Incoming, ResBody: Body<Error: Into<BodyError>> + 'static, Error: Into<BodyError>, Future: Unpin>
        + Unpin,
{
    /// Serves the requests of `stream` with `service`. Never parks once `had_body` is set.
    pub(in crate::http) fn new(stream: S, service: V, had_body: Arc<AtomicBool>) -> Self {
        let watch = Arc::<IdleWatch>::default();
        let timer = HeadTimer::new(watch.clone());
        let mut this = Self { state: ParkingState::Over, watch, timer, had_body, is_busy: false };
        this.serve(stream, service, Bytes::new());
        this
    }

    fn serve(&mut self, stream: S, service: V, first: Bytes) {
        let stream = WatchedStream { inner: stream, first, watch: self.watch.clone() };
        let connection = builder(self.timer.clone()).serve_connection(TokioIo::new(stream), service);
        self.state = ParkingState::Served(Box::new(connection));
    }

    pub(in crate::http) fn graceful_shutdown(mut self: Pin<&mut Self>) {
        match mem::replace(&mut self.state, ParkingState::Over) {
            ParkingState::Served(mut connection) => {
                Pin::new(&mut *connection).graceful_shutdown();
                self.state = ParkingState::Served(connection);
            }
            ParkingState::Parked(parked) => self.state = ParkingState::Ending(Box::new(parked.stream)),
            other => self.state = other,
        }
    }

    fn park(&mut self, connection: http1::Connection<TokioIo<WatchedStream<S>>, V>) {
        let parts = connection.into_parts();
        let stream = parts.io.into_inner();
        if parts.read_buf.is_empty() && stream.first.is_empty() {
            let parked = ParkedConnection { stream: stream.inner, service: parts.service, over: self.timer.rest() };
            self.state = ParkingState::Parked(Box::new(parked));
        } else {
            // The start of a head arrived together with the previous request.
            self.is_busy = true;
            let first = [parts.read_buf, stream.first].concat().into();
            self.serve(stream.inner, parts.service, first);
        }
    }

    /// Advances the connection, possibly to another state; pending while it has to wait.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match mem::replace(&mut self.state, ParkingState::Over) {
            ParkingState::Served(mut connection) => {
                if Pin::new(&mut *connection).poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                if self.watch.is_idle() && !self.is_busy && !self.had_body.load(Ordering::Relaxed) {
                    self.park(*connection);
                    return Poll::Ready(());
                }
                self.state = ParkingState::Served(connection);
                Poll::Pending
            }
            ParkingState::Parked(mut parked) => {
                let mut bytes = [0; limits::PARKED_READ_BYTES];
                let mut buf = ReadBuf::new(&mut bytes);
                match Pin::new(&mut parked.stream).poll_read(cx, &mut buf) {
                    Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                        self.serve(parked.stream, parked.service, Bytes::copy_from_slice(buf.filled()));
                    }
                    Poll::Ready(_) => self.state = ParkingState::Ending(Box::new(parked.stream)),
                    Poll::Pending if parked.over.as_mut().poll(cx).is_ready() => {
                        self.state = ParkingState::Ending(Box::new(parked.stream));
                    }
                    Poll::Pending => {
                        self.state = ParkingState::Parked(parked);
                        return Poll::Pending;
                    }
                }
                Poll::Ready(())
            }
            ParkingState::Ending(mut stream) => {
                if Pin::new(&mut *stream).poll_shutdown(cx).is_pending() {
                    self.state = ParkingState::Ending(stream);
                    return Poll::Pending;
                }
                Poll::Ready(())
            }
            ParkingState::Over => Poll::Ready(()),
        }
    }
}

impl<S, V> Future for ParkableConnection<S, V>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
    V: HttpService<Incoming, ResBody: Body<Error: Into<BodyError>> + 'static, Error: Into<BodyError>, Future: Unpin>
        + Unpin,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        while !matches!(self.state, ParkingState::Over) {
            ready!(self.poll_step(cx));
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if self.first.is_empty() {
            ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        } else {
            let count = self.first.len().min(buf.remaining());
            buf.put_slice(&self.first[..count]);
            self.first.advance(count);
        }
        self.watch.has_read.store(buf.filled().len() > before, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.watch.noted(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.watch.noted(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.watch.noted(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use http_body_util::Full;
    use hyper::service::service_fn;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
        time::{Instant, sleep},
    };

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a.de\r\n\r\n";

    /// Returns a connection, and whether it is parked, updated after each poll.
    fn serve_body(body: &'static [u8]) -> (DuplexStream, Arc<AtomicBool>, tokio::task::JoinHandle<()>) {
        let (near, far) = duplex(1_000);
        let answer = move |_: Request<Incoming>| {
            Box::pin(async move { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(body)))) })
        };
        let mut connection = ParkableConnection::new(far, service_fn(answer), Arc::default());
        let is_parked = Arc::<AtomicBool>::default();
        let said = is_parked.clone();
        let task = tokio::spawn(std::future::poll_fn(move |cx| {
            let polled = Pin::new(&mut connection).poll(cx);
            said.store(matches!(connection.state, ParkingState::Parked(_)), Ordering::Relaxed);
            polled
        }));
        (near, is_parked, task)
    }

    async fn answer(near: &mut DuplexStream, body: &str) {
        let mut answer = Vec::new();
        while !answer.ends_with(body.as_bytes()) {
            assert_ne!(near.read_buf(&mut answer).await.unwrap(), 0, "{}", String::from_utf8_lossy(&answer));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_idles_is_parked_and_served_again() {
        let (mut near, is_parked, task) = serve_body(b"hello");
        for _ in 0..3 {
            near.write_all(REQUEST).await.unwrap();
            answer(&mut near, "hello").await;
            sleep(limits::PARK_IDLE_AFTER / 2).await;
            assert!(!is_parked.load(Ordering::Relaxed));
            sleep(limits::PARK_IDLE_AFTER).await;
            assert!(is_parked.load(Ordering::Relaxed));
        }
        let start = Instant::now();
        assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(start.elapsed() + limits::PARK_IDLE_AFTER * 3 / 2, limits::REQUEST_HEAD, "parked or not");
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_of_a_head_is_lost_and_none_takes_longer_for_it() {
        let (mut near, is_parked, _task) = serve_body(b"hello");
        near.write_all(REQUEST).await.unwrap();
        answer(&mut near, "hello").await;
        sleep(limits::PARK_IDLE_AFTER * 2).await;
        let (one, other) = REQUEST.split_at(5);
        near.write_all(one).await.unwrap();
        sleep(limits::REQUEST_HEAD * 9 / 10).await;
        assert!(!is_parked.load(Ordering::Relaxed), "something of a head is there");
        near.write_all(other).await.unwrap();
        answer(&mut near, "hello").await;

        // The start of a second head arrives with the first.
        near.write_all(&[REQUEST, one].concat()).await.unwrap();
        answer(&mut near, "hello").await;
        sleep(limits::PARK_IDLE_AFTER * 2).await;
        near.write_all(other).await.unwrap();
        answer(&mut near, "hello").await;

        near.write_all(one).await.unwrap();
        let start = Instant::now();
        assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
        assert!(start.elapsed() <= limits::REQUEST_HEAD);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_is_kept() {
        const LONG: &[u8] = &[b'a'; 5_000];
        let (mut near, is_parked, _task) = serve_body(LONG);
        near.write_all(REQUEST).await.unwrap();
        sleep(limits::PARK_IDLE_AFTER * 3).await;
        assert!(!is_parked.load(Ordering::Relaxed));
        answer(&mut near, std::str::from_utf8(LONG).unwrap()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_parked_ends_when_asked_to() {
        let (mut near, far) = duplex(1_000);
        let answer = |_: Request<Incoming>| {
            Box::pin(async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello")))) })
        };
        let mut connection = ParkableConnection::new(far, service_fn(answer), Arc::default());
        let start = Instant::now();
        tokio::select! {
            () = &mut connection => panic!("it is still there"),
            () = sleep(limits::PARK_IDLE_AFTER * 2) => {}
        }
        assert!(matches!(connection.state, ParkingState::Parked(_)));
        Pin::new(&mut connection).graceful_shutdown();
        connection.await;
        assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(start.elapsed(), limits::PARK_IDLE_AFTER * 2);
    }
}
