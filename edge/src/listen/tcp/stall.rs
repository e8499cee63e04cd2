//! A socket whose writes end when the other side takes nothing for too long. Costs nothing while writes go through.
//! Stands below TLS, which hands over whole records.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use crate::limits::{self, JOINED_WRITE_BYTES};

/// Cuts off readers that do not read.
pub(crate) struct Stall<S> {
    inner: S,
    /// Runs while a write waits.
    patience: Option<Pin<Box<Sleep>>>,
}

impl<S> Stall<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner, patience: None }
    }

    fn judge<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.patience.is_some() {
                self.patience = None;
            }
            return written;
        }
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(limits::WRITE_STALL)));
        patience.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stall<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.judge(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = Pin::new(&mut self.inner);
        let written = match bufs {
            // Nearly always: one record. The kernel takes one buffer more cheaply than a list of one.
            [buf] => inner.poll_write(cx, buf),
            // A piece of a stream with its length before it and a line's end behind it: the same.
            _ if bufs.iter().map(|buf| buf.len()).sum::<usize>() <= JOINED_WRITE_BYTES => {
                let mut joined = [0; JOINED_WRITE_BYTES];
                let mut len = 0;
                for buf in bufs {
                    joined[len..len + buf.len()].copy_from_slice(buf);
                    len += buf.len();
                }
                inner.poll_write(cx, &joined[..len])
            }
            _ => inner.poll_write_vectored(cx, bufs),
        };
        self.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.judge(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.judge(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn parts_arrive_in_their_order_however_many_bytes_they_are() {
        let (near, mut far) = tokio::io::duplex(4 * JOINED_WRITE_BYTES);
        let mut near = Stall::new(near);
        for middle in
            [0, 1, JOINED_WRITE_BYTES - 6, JOINED_WRITE_BYTES - 5, JOINED_WRITE_BYTES - 4, 2 * JOINED_WRITE_BYTES]
        {
            let text = vec![b'x'; middle];
            let parts = [b"c8\r\n".as_slice(), &text, b"\r\n"];
            let whole = parts.concat();
            let mut written = 0;
            while written < whole.len() {
                let mut skip = written;
                let rest = parts.map(|part| {
                    let skipped = skip.min(part.len());
                    skip -= skipped;
                    IoSlice::new(&part[skipped..])
                });
                written += near.write_vectored(&rest).await.unwrap();
            }
            let mut read = vec![0; whole.len()];
            far.read_exact(&mut read).await.unwrap();
            assert_eq!(read, whole);
        }
    }
}
