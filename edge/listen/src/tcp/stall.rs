//! A socket whose writes fail when the peer reads nothing, or hardly anything, for too long. Below TLS.
//!
//! It costs nothing while writes succeed: a reader that is behind by less than the kernel's buffer is not noticed.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use fairness::budget::BudgetAccount;
use limits::{JOINED_WRITE_BYTES, STALL_UNDER_PRESSURE};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use super::super::pace::ReadPace;

pub(crate) struct StallGuard<S> {
    inner: S,
    /// The account that unread bytes are charged to.
    account: Option<BudgetAccount>,
    /// `Some` from the first write that waits until the peer has caught up.
    behind: Option<Box<LaggingReader>>,
}

/// A reader that is behind by more than the kernel buffers.
struct LaggingReader {
    pace: ReadPace,
    /// When the current write started to wait, if it does.
    since: Option<Instant>,
    patience: Pin<Box<Sleep>>,
}

impl<S> StallGuard<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner, account: None, behind: None }
    }

    /// Aborts sooner if others need the memory that is charged to `account`.
    pub(crate) fn charged_to(mut self, account: BudgetAccount) -> Self {
        self.account = Some(account);
        self
    }

    fn check_write(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let Poll::Ready(written) = written else { return self.wait(cx).map(Err) };
        if let Some(behind) = &mut self.behind
            && let Ok(bytes) = written
        {
            let waited = behind.since.take().map_or_else(Default::default, |since| since.elapsed());
            behind.pace.record_read(bytes as u64, waited);
            if behind.pace.is_fresh() {
                self.behind = None;
            }
        }
        Poll::Ready(written)
    }

    /// Waits for the peer to read; returns an error once its time is up.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let behind = self.behind.get_or_insert_with(|| {
            let pace = ReadPace::default();
            Box::new(LaggingReader { pace, since: None, patience: Box::pin(sleep(pace.remaining())) })
        });
        let since = *behind.since.get_or_insert_with(|| {
            let now = Instant::now();
            behind.patience.as_mut().reset(now + behind.pace.remaining().min(STALL_UNDER_PRESSURE));
            now
        });
        loop {
            std::task::ready!(behind.patience.as_mut().poll(cx));
            let now = Instant::now();
            if now >= since + behind.pace.remaining() || self.account.as_ref().is_some_and(BudgetAccount::is_pressed) {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            behind.patience.as_mut().reset((now + STALL_UNDER_PRESSURE).min(since + behind.pace.remaining()));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.check_write(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = Pin::new(&mut self.inner);
        let written = match bufs {
            // The usual case, one record: the kernel takes one buffer more cheaply than a list of one.
            [buf] => inner.poll_write(cx, buf),
            // A chunk of a stream, between its length and a line's end: one joined buffer is cheaper as well.
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
        self.check_write(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.inner).poll_flush(cx) {
            Poll::Ready(flushed) => Poll::Ready(flushed),
            Poll::Pending => self.wait(cx).map(Err),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.inner).poll_shutdown(cx) {
            Poll::Ready(shut) => Poll::Ready(shut),
            Poll::Pending => self.wait(cx).map(Err),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn parts_arrive_in_their_order_however_many_bytes_they_are() {
        let (near, mut far) = tokio::io::duplex(4 * JOINED_WRITE_BYTES);
        let mut near = StallGuard::new(near);
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

    /// A pipe that accepts `step` bytes after each second of waiting.
    struct SlowPipe {
        step: usize,
        sleep: Pin<Box<Sleep>>,
    }

    impl AsyncWrite for SlowPipe {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            std::task::ready!(self.sleep.as_mut().poll(cx));
            self.sleep.as_mut().reset(Instant::now() + std::time::Duration::from_secs(1));
            Poll::Ready(Ok(buf.len().min(self.step)))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_at_a_trickle_is_cut_and_a_slow_one_is_not() {
        for (step, is_cut) in [(1, true), (800, true), (1_200, false), (100_000, false)] {
            let (start, mut written) = (Instant::now(), 0);
            let large = vec![0; 200_000];
            let mut socket = StallGuard::new(SlowPipe { step, sleep: Box::pin(sleep(std::time::Duration::ZERO)) });
            let end = loop {
                match socket.write(&large).await {
                    // TLS flushes occasionally, which succeeds immediately.
                    Ok(bytes) => written += bytes,
                    Err(error) => break Some(error.kind()),
                }
                socket.flush().await.unwrap();
                if start.elapsed().as_secs() > 300 {
                    break None;
                }
            };
            assert_eq!(end, is_cut.then_some(io::ErrorKind::TimedOut), "{step} bytes a second");
            assert!(!is_cut || (29..=31).contains(&start.elapsed().as_secs()), "{step}: {:?}", start.elapsed());
            assert!(written >= step);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_holds_what_others_need_is_cut_sooner() {
        use fairness::budget::{BudgetLimits, ByteBudget};
        let budget = ByteBudget::new(BudgetLimits { total: 1_000, client: 250, connection: 250 });
        let account = budget.account(Some(std::net::IpAddr::from([192, 0, 2, 1]).into()));
        let _held = account.try_take(20).unwrap();
        for (others, seconds) in [(500, 30), (900, 2)] {
            let _others = budget.common_account().try_take(others).unwrap();
            let (start, never) = (Instant::now(), Box::pin(sleep(std::time::Duration::from_hours(1))));
            let mut socket = StallGuard::new(SlowPipe { step: 1, sleep: never }).charged_to(account.clone());
            assert_eq!(socket.write(&[0; 100]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert_eq!(start.elapsed().as_secs(), seconds, "{others}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_has_nothing_to_say_is_not_cut() {
        let (near, mut far) = tokio::io::duplex(64 * 1024);
        let mut near = StallGuard::new(near);
        for _ in 0..1_000 {
            near.write_all(b"a word").await.unwrap();
            let mut word = [0; 6];
            far.read_exact(&mut word).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_mins(1)).await;
        }
    }
}
