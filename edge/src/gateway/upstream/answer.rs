//! A provider's answer, read piece by piece, within bounds of time.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};

use super::line::Line;
use crate::limits;

/// An answer whose body is still to be read.
pub(in crate::gateway) struct Answer {
    pub(in crate::gateway) status: StatusCode,
    pub(in crate::gateway) headers: HeaderMap,
    body: Incoming,
    line: Line,
    patience: Patience,
    pace: Option<Pace>,
}

/// Why the rest of an answer will not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::gateway) enum Broken {
    #[error("the answer broke off")]
    Off,
    #[error("the answer stopped coming")]
    Slow,
}

impl Answer {
    pub(super) fn new(line: Line, response: Response<Incoming>, idle: Duration) -> Self {
        let (head, body) = response.into_parts();
        Self { status: head.status, headers: head.headers, body, line, patience: Patience::new(idle), pace: None }
    }

    /// From now on, what comes in quick succession is read together: every piece that is read and written by itself
    /// costs as much as forty at once.
    pub(in crate::gateway) fn gather(&mut self) {
        self.pace.get_or_insert_default();
    }

    /// From now on, what comes is read at once.
    pub(in crate::gateway) fn hurry(&mut self) {
        self.pace = None;
    }

    /// Whether what was read last came in quick succession.
    pub(in crate::gateway) fn is_gathering(&self) -> bool {
        self.pace.as_ref().is_some_and(|pace| pace.gathered)
    }

    /// The next bytes; none at the end.
    pub(in crate::gateway) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        if let Some(pace) = &mut self.pace {
            ready!(pace.poll(cx, self.patience.heard));
        }
        let mut driven = false;
        loop {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers say nothing that we pass on.
                    if let Ok(bytes) = frame.into_data() {
                        self.patience.heard();
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Some(Err(Broken::Off))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending if driven => {
                    if let Some(pace) = &mut self.pace {
                        pace.found_nothing();
                    }
                    return self.patience.poll(cx).map(|()| Some(Err(Broken::Slow)));
                }
                Poll::Pending => {
                    self.line.drive(cx);
                    driven = true;
                }
            }
        }
    }

    /// The connection, once the body was read to its end.
    pub(in crate::gateway) fn into_line(self) -> Line {
        self.line
    }
}

/// Lets the pieces of a quick stream gather. One that comes later than [`limits::GATHER`] after the one before is read
/// at once and sets no timer; nothing is read, and so nobody woken, before that time is over.
#[derive(Default)]
struct Pace {
    /// Everything was read that was there.
    is_empty: bool,
    resting: bool,
    /// What is being read had to wait.
    gathered: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    fn poll(&mut self, cx: &mut Context<'_>, heard: Instant) -> Poll<()> {
        if self.is_empty {
            self.is_empty = false;
            let due = heard + limits::GATHER;
            self.resting = Instant::now() < due;
            self.gathered = self.resting;
            if self.resting {
                match &mut self.timer {
                    Some(timer) => timer.as_mut().reset(due),
                    None => self.timer = Some(Box::pin(sleep_until(due))),
                }
            }
        }
        if self.resting
            && let Some(timer) = &mut self.timer
        {
            ready!(timer.as_mut().poll(cx));
            self.resting = false;
        }
        Poll::Ready(())
    }

    fn found_nothing(&mut self) {
        self.is_empty = true;
    }
}

/// Ends the wait for bytes: for the next ones, and for all. One timer, set anew only when it has run out.
struct Patience {
    idle: Duration,
    end: Instant,
    heard: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    fn new(idle: Duration) -> Self {
        let now = Instant::now();
        Self { idle, end: now + limits::EXCHANGE, heard: now, timer: None }
    }

    fn heard(&mut self) {
        self.heard = Instant::now();
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.end.min(self.heard + self.idle);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        while timer.as_mut().poll(cx).is_ready() {
            let deadline = self.end.min(self.heard + self.idle);
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn quick_pieces_gather_and_slow_ones_do_not_wait() {
        let mut pace = Pace::default();
        let start = Instant::now();
        poll_fn(|cx| pace.poll(cx, start)).await;
        assert_eq!((start.elapsed(), pace.gathered), (Duration::ZERO, false), "what is there is read on");

        pace.found_nothing();
        poll_fn(|cx| pace.poll(cx, start)).await;
        let waited = start.elapsed();
        assert!(pace.gathered && waited >= limits::GATHER && waited <= limits::GATHER * 2, "{waited:?}");

        let heard = Instant::now();
        pace.found_nothing();
        tokio::time::advance(limits::GATHER * 20).await;
        let woken = Instant::now();
        poll_fn(|cx| pace.poll(cx, heard)).await;
        assert_eq!((woken.elapsed(), pace.gathered), (Duration::ZERO, false), "a slow piece is read at once");
    }
}
