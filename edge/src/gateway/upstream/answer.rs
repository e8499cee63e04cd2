//! A provider's answer, read piece by piece, within bounds of time.

use std::{
    pin::Pin,
    task::{Context, Poll},
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
        Self { status: head.status, headers: head.headers, body, line, patience: Patience::new(idle) }
    }

    /// The next bytes; none at the end.
    pub(in crate::gateway) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
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
