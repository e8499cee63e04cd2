//! Buffers a connection's writes until it has nothing more to write, so that many streams' writes are sent together.
//! Stops reading from a client that floods us with control frames.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::control_frames::ControlFrameLimiter;

/// The stream for h2: buffers writes until [`Self::poll_send`] sends them, or the buffer is full.
pub(super) struct GatheredStream<S>(Arc<Mutex<GatherBuffer<S>>>);

impl<S> Clone for GatheredStream<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: AsyncWrite + Unpin> GatheredStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(GatherBuffer {
            inner: stream,
            held: Vec::new(),
            written: 0,
            sent: true,
            frames: ControlFrameLimiter::default(),
            is_flooded: false,
        })))
    }

    pub(super) fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).poll_send(cx)
    }

    pub(super) fn is_flooded(&self) -> bool {
        lock(&self.0).is_flooded
    }

    /// Appends a GOAWAY frame to the buffer. h2 does not send it: it does not know about the flood, and has ended.
    pub(super) fn push_goaway(&self) {
        let mut gathering = lock(&self.0);
        let goaway = gathering.frames.goaway();
        gathering.held.extend_from_slice(&goaway);
        gathering.sent = false;
    }
}

struct GatherBuffer<S> {
    inner: S,
    held: Vec<u8>,
    written: usize,
    sent: bool,
    frames: ControlFrameLimiter,
    is_flooded: bool,
}

impl<S: AsyncWrite + Unpin> GatherBuffer<S> {
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
        // Released, so that an idle connection holds no write buffer.
        self.held = Vec::new();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

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

impl<S: AsyncRead + Unpin> AsyncRead for GatheredStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut gathering = lock(&self.0);
        let before = buf.filled().len();
        ready!(Pin::new(&mut gathering.inner).poll_read(cx, buf))?;
        if !gathering.is_flooded && gathering.frames.allow(&buf.filled()[before..]) {
            return Poll::Ready(Ok(()));
        }
        gathering.is_flooded = true;
        buf.set_filled(before);
        Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GatheredStream<S> {
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
        gathering.frames.record_written(room - left);
        Poll::Ready(Ok(room - left))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: the buffer is sent after every poll of the connection.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathering = lock(&self.0);
        ready!(gathering.poll_send(cx))?;
        Pin::new(&mut gathering.inner).poll_shutdown(cx)
    }
}

/// Never contended: only the connection's task locks it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_visitor_who_takes_nothing_holds_one_gathering() {
        use futures_util::FutureExt as _;
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

        const PIPE: usize = 10;
        let (mut near, far) = tokio::io::duplex(PIPE);
        let mut stream = GatheredStream::new(far);
        let mut accepted = 0;
        while let Some(written) = stream.write(&[0; 1_000]).now_or_never() {
            accepted += written.unwrap();
            assert!(accepted <= 2 * limits::GATHERED_BYTES, "a visitor who takes nothing is written to without end");
        }
        assert_eq!(accepted, limits::GATHERED_BYTES);
        assert!(lock(&stream.0).held.capacity() <= limits::GATHERED_BYTES);
        // Accepted bytes are not lost, and there is room again.
        let more = async {
            stream.write_all(&[1]).await.unwrap();
            stream.shutdown().await.unwrap();
        };
        let mut taken = Vec::new();
        let (read, ()) = tokio::join!(near.read_to_end(&mut taken), more);
        assert_eq!((read.unwrap(), taken.last()), (limits::GATHERED_BYTES + 1, Some(&1)));
    }
}
