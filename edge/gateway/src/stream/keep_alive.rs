//! Keep-alive comments for clients while the provider is silent.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::time::{Instant, Sleep, sleep_until};

/// The timer for a stream's comments. A single timer, reset only when it fires.
pub(crate) struct KeepAliveTimer {
    due: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl KeepAliveTimer {
    /// Creates the timer of a stream that begins now. Its head is sent with the first comment, or earlier with content.
    pub(crate) fn new() -> Self {
        Self { due: Instant::now() + limits::STREAM_BEGINNING, timer: None }
    }

    /// Restarts the wait after bytes that arrived `at` this time.
    pub(super) fn restart(&mut self, at: Instant) {
        self.due = at + limits::KEEP_ALIVE;
    }

    /// Becomes ready each time a comment is due.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.due;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        while timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if now >= self.due {
                self.due = now + limits::KEEP_ALIVE;
                return Poll::Ready(());
            }
            timer.as_mut().reset(self.due);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn comments_are_due_in_silence_alone() {
        let (start, mut comments) = (Instant::now(), KeepAliveTimer::new());
        poll_fn(|cx| comments.poll(cx)).await;
        let first = start.elapsed();
        assert!(first >= limits::STREAM_BEGINNING && first < 2 * limits::STREAM_BEGINNING, "{first:?}");
        for _ in 0..3 {
            let last = Instant::now();
            poll_fn(|cx| comments.poll(cx)).await;
            let pause = last.elapsed();
            assert!(pause >= limits::KEEP_ALIVE && pause < limits::KEEP_ALIVE + Duration::from_secs(1), "{pause:?}");
        }
        // Bytes postpone the next comment.
        for _ in 0..10 {
            let more = tokio::time::timeout(limits::KEEP_ALIVE * 2 / 3, poll_fn(|cx| comments.poll(cx))).await;
            assert!(more.is_err(), "a comment between bytes");
            comments.restart(Instant::now());
        }
        let last = Instant::now();
        poll_fn(|cx| comments.poll(cx)).await;
        assert!(last.elapsed() >= limits::KEEP_ALIVE);
    }
}
