//! HTTP/2 in one task: requests are answered where they are read, and what they write leaves together.
//!
//! hyper spawns a task for each request, and h2 flushes after each frame of data. Every answer out of memory would be a
//! task, a TLS record and a system call. Here a request becomes a task only when its answer has to wait, and writes are
//! held until the connection has nothing more to say.

use std::{
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Waker, ready},
};

use hyper::rt::Executor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits;

type Answering = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a connection of hyper's and the requests that its [`Begun`] took.
pub(in crate::listen::http) struct Multiplexed<C, S> {
    /// Boxed to be movable.
    connection: Pin<Box<C>>,
    begun: Arc<Mutex<Vec<Answering>>>,
    output: Gathered<S>,
}

impl<C, S: AsyncWrite + Unpin> Multiplexed<C, S> {
    /// Of what `connect` makes of the stream and the executor.
    pub(in crate::listen::http) fn new(stream: S, connect: impl FnOnce(Gathered<S>, Begun) -> C) -> Self {
        let begun = Arc::default();
        let output =
            Gathered(Arc::new(Mutex::new(Gathering { inner: stream, held: Vec::new(), written: 0, sent: true })));
        let connection = Box::pin(connect(output.clone(), Begun(Arc::downgrade(&begun))));
        Self { connection, begun, output }
    }

    /// hyper's connection.
    pub(in crate::listen::http) fn connection(self: Pin<&mut Self>) -> Pin<&mut C> {
        self.get_mut().connection.as_mut()
    }
}

// Nothing in it is pinned in place: the connection has its box.
impl<C, S> Unpin for Multiplexed<C, S> {}

impl<C: Future, S: AsyncWrite + Unpin> Future for Multiplexed<C, S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let ended = self.connection.as_mut().poll(cx).is_ready();
        let begun = std::mem::take(&mut *lock(&self.begun));
        if ended {
            return Poll::Ready(());
        }
        for mut answering in begun {
            // The waker may do nothing: one that has to wait is polled again, by its task. One that is answered wakes
            // this connection, as it would from a task, and is sent at the next poll.
            if answering.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                tokio::spawn(answering);
            }
        }
        match lock(&self.output.0).poll_send(cx) {
            // Nobody is there to take anything: as when the connection itself cannot write.
            Poll::Ready(Err(_)) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

/// The executor to give to hyper: keeps the connection's new requests until it has read what there is.
// Weak, because each request holds its executor, and would hold itself.
#[derive(Clone)]
pub(in crate::listen::http) struct Begun(Weak<Mutex<Vec<Answering>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Begun {
    fn execute(&self, answering: F) {
        if let Some(begun) = self.0.upgrade() {
            lock(&begun).push(Box::pin(answering));
        }
    }
}

/// The stream to give to hyper: holds what is written until [`Multiplexed`] sends it, or there is much of it.
pub(in crate::listen::http) struct Gathered<S>(Arc<Mutex<Gathering<S>>>);

impl<S> Clone for Gathered<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Gathering<S> {
    inner: S,
    held: Vec<u8>,
    /// Bytes of it that are written.
    written: usize,
    /// Whether everything is, and flushed.
    sent: bool,
}

impl<S: AsyncWrite + Unpin> Gathering<S> {
    /// Writes what is held, and flushes.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.sent {
            ready!(self.poll_write_held(cx))?;
            ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
            self.sent = true;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_held(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.held.len() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.held[self.written..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
        }
        // Given back: an idle connection holds no memory for what it may write.
        self.held = Vec::new();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    /// Room for at least one byte.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.held.len() >= limits::GATHERED_BYTES {
            ready!(self.poll_write_held(cx))?;
        }
        if self.held.capacity() == 0 {
            self.held.reserve_exact(limits::GATHERED_BYTES);
        }
        Poll::Ready(Ok(limits::GATHERED_BYTES - self.held.len()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut gathering = lock(&self.0);
        let room = ready!(gathering.poll_room(cx))?;
        let mut left = room;
        for buf in bufs {
            let taken = buf.len().min(left);
            gathering.held.extend_from_slice(&buf[..taken]);
            left -= taken;
        }
        gathering.sent = false;
        Poll::Ready(Ok(room - left))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing: [`Multiplexed`] sends after every poll of the connection.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathering = lock(&self.0);
        ready!(gathering.poll_send(cx))?;
        Pin::new(&mut gathering.inner).poll_shutdown(cx)
    }
}

/// Never contended: all of it happens in the connection's task.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt as _, Empty, Full};
    use hyper::{body::Incoming, client, server, service::service_fn};
    use hyper_util::rt::{TokioExecutor, TokioIo};

    use super::*;

    /// More than is gathered, than the pipe holds, and than the client's window at first.
    const LARGE: usize = 5 * limits::GATHERED_BYTES;

    #[tokio::test]
    async fn answers_arrive_whole_whether_they_wait_or_not() {
        let (near, far) = tokio::io::duplex(1_000);
        let answer = |request: Request<Incoming>| async move {
            let path = request.uri().path().to_owned();
            if path.starts_with("/later") {
                tokio::task::yield_now().await;
            }
            let len = if path.ends_with("large") { LARGE } else { path.len() };
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(vec![b'x'; len]))))
        };
        tokio::spawn(Multiplexed::new(far, |stream, executor| {
            server::conn::http2::Builder::new(executor).serve_connection(TokioIo::new(stream), service_fn(answer))
        }));
        let io = TokioIo::new(near);
        let (sender, connection) = client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        let asked = ["/now", "/later", "/now/large", "/later/large", "/now/2", "/later/2"].map(|path| {
            let mut sender = sender.clone();
            async move {
                let request = Request::get(format!("https://a.de{path}")).body(Empty::<Bytes>::new()).unwrap();
                let body = sender.send_request(request).await.unwrap().into_body().collect().await.unwrap();
                (path, body.to_bytes().len())
            }
        });
        for (path, len) in futures_util::future::join_all(asked).await {
            assert_eq!(len, if path.ends_with("large") { LARGE } else { path.len() }, "{path}");
        }
    }

    #[tokio::test]
    async fn a_visitor_who_takes_nothing_holds_one_gathering() {
        use futures_util::FutureExt as _;
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

        const PIPE: usize = 10;
        let (mut near, far) = tokio::io::duplex(PIPE);
        let mut stream =
            Gathered(Arc::new(Mutex::new(Gathering { inner: far, held: Vec::new(), written: 0, sent: true })));
        let mut accepted = 0;
        while let Some(written) = stream.write(&[0; 1_000]).now_or_never() {
            accepted += written.unwrap();
            assert!(accepted <= 2 * limits::GATHERED_BYTES, "a visitor who takes nothing is written to without end");
        }
        assert_eq!(accepted, limits::GATHERED_BYTES);
        assert!(lock(&stream.0).held.capacity() <= limits::GATHERED_BYTES);
        // Nothing is lost of what was accepted, and there is room again.
        let more = async {
            stream.write_all(&[1]).await.unwrap();
            stream.shutdown().await.unwrap();
        };
        let mut taken = Vec::new();
        let (read, ()) = tokio::join!(near.read_to_end(&mut taken), more);
        assert_eq!((read.unwrap(), taken.last()), (limits::GATHERED_BYTES + 1, Some(&1)));
    }
}
