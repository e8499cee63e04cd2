//! Closes a connection without losing the last response: the kernel resets a connection that is closed while its
//! visitor still sends, and the response is lost. So remaining input is read, within limits, after our side is closed.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A stream that lingers when it is closed, if requested.
pub(super) struct LingeringStream<S> {
    inner: S,
    /// Whether a request had a body, part of which may still be in flight.
    wanted: Arc<AtomicBool>,
    shut: bool,
    patience: Option<Pin<Box<Sleep>>>,
}

impl<S> LingeringStream<S> {
    /// Wraps `inner`, which lingers when it is closed if `wanted` is set by then.
    pub(super) fn new(inner: S, wanted: Arc<AtomicBool>) -> Self {
        Self { inner, wanted, shut: false, patience: None }
    }
}

impl<S: AsyncRead + Unpin> LingeringStream<S> {
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(limits::LINGER)));
        if patience.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut gulp = [0; limits::LINGER_READ_BYTES];
        loop {
            let mut buf = ReadBuf::new(&mut gulp);
            let read = ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buf));
            if read.is_err() || buf.filled().is_empty() {
                return Poll::Ready(());
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.shut {
            ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
            self.shut = true;
        }
        if self.wanted.load(Ordering::Relaxed) {
            ready!(self.poll_rest(cx));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_still_comes_is_read_but_not_for_ever() {
        let (near, mut far) = tokio::io::duplex(1_000);
        let mut near = LingeringStream::new(near, Arc::new(AtomicBool::new(true)));
        let closing = tokio::spawn(async move {
            near.write_all(b"answer").await.unwrap();
            near.shutdown().await
        });
        far.write_all(&vec![0; 100_000]).await.expect("everything is taken");
        let mut answer = String::new();
        far.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
        // `far` stays open.
        closing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_visitor_who_sent_nothing_is_not_waited_for() {
        let (near, _far) = tokio::io::duplex(1_000);
        let mut near = LingeringStream::new(near, Arc::default());
        tokio::time::timeout(limits::LINGER / 2, near.shutdown()).await.unwrap().unwrap();
    }
}
