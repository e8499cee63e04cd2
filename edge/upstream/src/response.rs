//! A provider's answer, read chunk by chunk, with timeouts.

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

use super::connection::ProviderConnection;

/// A provider's answer whose body is still to be read.
pub struct UpstreamResponse {
    /// The status with which the provider answered.
    pub status: StatusCode,
    /// The headers of the answer.
    pub headers: HeaderMap,
    body: Incoming,
    connection: ProviderConnection,
    timeouts: AnswerTimeouts,
    /// `None` while chunks are read as soon as they arrive.
    batching: Option<ChunkBatching>,
}

/// The reason that an answer was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The connection failed, or the provider violated HTTP.
    #[error("the answer broke off")]
    Broken,
    /// The answer did not begin, go on or end in time.
    #[error("the answer stopped coming")]
    Timeout,
}

impl UpstreamResponse {
    /// Creates an answer that must have content by `begin_by`, and then at least every `idle`.
    pub(super) fn new(
        connection: ProviderConnection,
        response: Response<Incoming>,
        begin_by: Instant,
        idle: Duration,
    ) -> Self {
        let (head, body) = response.into_parts();
        let timeouts = AnswerTimeouts::new(begin_by, idle);
        Self { status: head.status, headers: head.headers, body, connection, timeouts, batching: None }
    }

    /// Marks the answer as begun. Servers send the head, and other things without content, while a request is queued
    /// and its prompt is processed.
    pub fn set_begun(&mut self) {
        self.timeouts.set_begun();
    }

    /// Sets the time limit for the whole answer, measured from its head, instead of [`limits::EXCHANGE`].
    pub fn set_longest(&mut self, longest: Duration) {
        self.timeouts.end = self.timeouts.start + longest;
    }

    /// Returns when the last chunk was read, or the head before the first chunk.
    pub fn last_chunk(&self) -> Instant {
        self.timeouts.last_chunk
    }

    /// Starts to read quick successions of chunks together: a single chunk costs as much as forty read together.
    pub fn start_batching(&mut self) {
        self.batching.get_or_insert_default();
    }

    /// Reads each chunk again as soon as it arrives.
    pub fn stop_batching(&mut self) {
        self.batching = None;
    }

    /// Returns whether the chunk read last is part of a batch.
    pub fn is_batching(&self) -> bool {
        self.batching.as_ref().is_some_and(|batching| batching.is_batch)
    }

    /// Polls for the next chunk; `None` is the end. Fails if the connection breaks or one of the time limits passes.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ReadError>>> {
        if let Some(batching) = &mut self.batching {
            ready!(batching.poll(cx, self.timeouts.last_chunk));
        }
        let mut is_driven = false;
        loop {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers are dropped.
                    if let Ok(bytes) = frame.into_data() {
                        self.timeouts.reset_idle();
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Some(Err(ReadError::Broken))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending if is_driven => {
                    if let Some(batching) = &mut self.batching {
                        batching.end_batch();
                    }
                    return self.timeouts.poll(cx).map(|()| Some(Err(ReadError::Timeout)));
                }
                Poll::Pending => {
                    self.connection.drive(cx);
                    is_driven = true;
                }
            }
        }
    }

    /// Returns the connection, which can be reused if the body was read to its end.
    pub fn into_connection(self) -> ProviderConnection {
        self.connection
    }
}

/// Delays reading, so that the chunks of a quick stream are read in batches.
///
/// Nothing is read, and so no task is woken, before [`limits::GATHER`] has passed since the last chunk. A chunk that
/// arrives later is read immediately and needs no timer.
#[derive(Default)]
struct ChunkBatching {
    /// Whether everything that had arrived was read.
    is_drained: bool,
    is_waiting: bool,
    /// Whether the current chunks have waited.
    is_batch: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

impl ChunkBatching {
    fn poll(&mut self, cx: &mut Context<'_>, last_chunk: Instant) -> Poll<()> {
        if self.is_drained {
            self.is_drained = false;
            let due = last_chunk + limits::GATHER;
            self.is_waiting = Instant::now() < due;
            self.is_batch = self.is_waiting;
            if self.is_waiting {
                match &mut self.timer {
                    Some(timer) => timer.as_mut().reset(due),
                    None => self.timer = Some(Box::pin(sleep_until(due))),
                }
            }
        }
        if self.is_waiting
            && let Some(timer) = &mut self.timer
        {
            ready!(timer.as_mut().poll(cx));
            self.is_waiting = false;
        }
        Poll::Ready(())
    }

    fn end_batch(&mut self) {
        self.is_drained = true;
    }
}

/// The timeouts of an answer: for its beginning, for the next chunk, and for the whole. They share one timer, reset
/// when it fires and when the answer begins.
struct AnswerTimeouts {
    /// The time by which the answer must begin, until it has. Before that, pauses may be longer.
    begin_by: Option<Instant>,
    idle: Duration,
    start: Instant,
    /// The time by which the whole answer must have arrived.
    end: Instant,
    last_chunk: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl AnswerTimeouts {
    fn new(begin_by: Instant, idle: Duration) -> Self {
        let now = Instant::now();
        let end = now + limits::EXCHANGE;
        Self { begin_by: Some(begin_by), idle, start: now, end, last_chunk: now, timer: None }
    }

    fn reset_idle(&mut self) {
        self.last_chunk = Instant::now();
    }

    fn set_begun(&mut self) {
        if self.begin_by.take().is_some() {
            let deadline = self.deadline();
            if let Some(timer) = &mut self.timer {
                timer.as_mut().reset(deadline);
            }
        }
    }

    fn deadline(&self) -> Instant {
        let pause = self.last_chunk + self.idle;
        self.end.min(self.begin_by.map_or(pause, |begin_by| begin_by.max(pause)))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline();
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        while timer.as_mut().poll(cx).is_ready() {
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
    async fn quick_chunks_are_batched_and_slow_ones_do_not_wait() {
        let mut batching = ChunkBatching::default();
        let start = Instant::now();
        poll_fn(|cx| batching.poll(cx, start)).await;
        assert_eq!((start.elapsed(), batching.is_batch), (Duration::ZERO, false), "chunks that have arrived are read");

        batching.end_batch();
        poll_fn(|cx| batching.poll(cx, start)).await;
        let waited = start.elapsed();
        assert!(batching.is_batch && waited >= limits::GATHER && waited <= limits::GATHER * 2, "{waited:?}");

        let last_chunk = Instant::now();
        batching.end_batch();
        tokio::time::advance(limits::GATHER * 20).await;
        let woken = Instant::now();
        poll_fn(|cx| batching.poll(cx, last_chunk)).await;
        assert_eq!((woken.elapsed(), batching.is_batch), (Duration::ZERO, false), "a slow chunk is read immediately");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_has_longer_to_begin_than_to_go_on() {
        let (idle, first) = (Duration::from_mins(1), Duration::from_mins(5));
        let start = Instant::now();
        let waits = async |timeouts: &mut AnswerTimeouts| {
            poll_fn(|cx| timeouts.poll(cx)).await;
            start.elapsed().as_secs()
        };
        let mut silent = AnswerTimeouts::new(start + first, idle);
        assert_eq!(waits(&mut silent).await, 300);

        let start = Instant::now();
        let outlasts = async |timeouts: &mut AnswerTimeouts, seconds: u64| {
            let waiting = poll_fn(|cx| timeouts.poll(cx));
            tokio::time::timeout(Duration::from_secs(seconds), waiting).await.is_err()
        };
        // Signs of life without content do not shorten the wait; words do, even though the timer was set.
        let mut begun = AnswerTimeouts::new(start + first, idle);
        assert!(outlasts(&mut begun, 200).await);
        begun.reset_idle();
        begun.set_begun();
        poll_fn(|cx| begun.poll(cx)).await;
        assert_eq!(start.elapsed().as_secs(), 260);
        // An answer that shows signs of life after that time is not given up either.
        let start = Instant::now();
        let mut alive = AnswerTimeouts::new(start + first, idle);
        for _ in 0..20 {
            assert!(outlasts(&mut alive, 20).await);
            alive.reset_idle();
        }
        poll_fn(|cx| alive.poll(cx)).await;
        assert_eq!(start.elapsed().as_secs(), 460);
    }
}
