//! A connection with a timeout for its first byte, whose written bytes are counted. Above TLS.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::seats::ConnectionSeat;

/// Ends a connection that sends nothing in time, and counts what is written for its client.
pub(super) struct AttendedStream<S> {
    inner: S,
    seat: Arc<ConnectionSeat>,
    patience: Option<Pin<Box<Sleep>>>,
}

impl<S> AttendedStream<S> {
    pub(super) fn new(inner: S, seat: Arc<ConnectionSeat>, first_byte: Duration) -> Self {
        Self { inner, seat, patience: Some(Box::pin(sleep(first_byte))) }
    }

    fn counted(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.seat.tally.count_bytes(bytes);
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AttendedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        let Some(patience) = &mut self.patience else { return read };
        if read.is_ready() {
            self.patience = None;
            return read;
        }
        patience.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AttendedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.counted(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.counted(written)
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

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::Instant,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_the_first_byte_is_waited_for_so_shortly() {
        let (mut near, far) = tokio::io::duplex(10);
        let mut far = AttendedStream::new(far, Arc::default(), limits::FIRST_BYTE);
        near.write_all(b"x").await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'x');
        let later = async {
            sleep(2 * limits::FIRST_BYTE).await;
            near.write_all(b"y").await.unwrap();
        };
        assert_eq!(tokio::join!(far.read_u8(), later).0.unwrap(), b'y');

        let (_near, far) = tokio::io::duplex(10);
        let start = Instant::now();
        let error = AttendedStream::new(far, Arc::default(), limits::FIRST_BYTE).read_u8().await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed()), (io::ErrorKind::TimedOut, limits::FIRST_BYTE));
    }
}
