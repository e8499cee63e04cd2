//! The body of a streamed answer. It reads from the provider when the client wants more, and goes on reading without
//! the client when the client leaves: what was begun is metered as it ends.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Sleep, sleep},
};

use super::{
    catalog::Served,
    drains::Drains,
    gzip::{BadGzip, Unzipping},
    meter::{Ticket, Usage},
    refusal::{Fault, Refusal},
    sse::{BadStream, Frames, Progress},
    upstream::{Answer, Broken},
};
use crate::limits;

/// A stream on its way.
pub(super) struct Stream {
    state: State,
    drains: Drains,
}

enum State {
    Flowing(Box<Flow>),
    /// The error frame was given out, and gets a moment to leave before the connection is broken off.
    Failing(Pin<Box<Sleep>>),
    Over,
}

/// The stream ended with an error frame, and not as a whole answer ends.
#[derive(Debug, thiserror::Error)]
#[error("the provider's stream failed")]
pub(super) struct Aborted;

impl Stream {
    pub(super) fn new(flow: Flow, drains: Drains) -> Self {
        Self { state: State::Flowing(Box::new(flow)), drains }
    }

    pub(super) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        match &mut self.state {
            State::Flowing(flow) => {
                let bytes = match ready!(flow.poll(cx)) {
                    Next::Bytes(bytes) => bytes,
                    Next::Done(bytes) => {
                        if let State::Flowing(flow) = std::mem::replace(&mut self.state, State::Over) {
                            flow.hang_up(cx, &self.drains);
                        }
                        bytes
                    }
                    Next::Failed(bytes) => {
                        self.state = State::Failing(Box::pin(sleep(limits::ABORT_GRACE)));
                        bytes
                    }
                };
                Poll::Ready(Some(Ok(bytes)))
            }
            State::Failing(grace) => {
                ready!(grace.as_mut().poll(cx));
                self.state = State::Over;
                Poll::Ready(Some(Err(Aborted)))
            }
            State::Over => Poll::Ready(None),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let State::Flowing(flow) = std::mem::replace(&mut self.state, State::Over) {
            self.drains.take_over(flow.read_out());
        }
    }
}

/// What a stream needs while it flows.
pub(super) struct Flow {
    pub(super) answer: Answer,
    pub(super) metered: Metered,
    pub(super) unzipping: Option<Unzipping>,
    pub(super) served: Arc<Served>,
    /// Names the request in logs.
    pub(super) request_id: String,
    /// Its place among those under way.
    pub(super) permit: OwnedSemaphorePermit,
    /// Bytes of the answer so far.
    pub(super) read: usize,
    pub(super) out: BytesMut,
}

/// The frames of a stream, and what is to be settled with what they say.
pub(super) struct Metered {
    frames: Frames,
    /// None once it was settled.
    ticket: Option<Ticket>,
}

impl Metered {
    pub(super) fn new(frames: Frames, ticket: Ticket) -> Self {
        Self { frames, ticket: Some(ticket) }
    }

    fn settle(&mut self, usage: Usage) {
        if let Some(ticket) = self.ticket.take() {
            ticket.settle(usage);
        }
    }
}

/// Given up with its end unread: what was seen of it is what can be said.
impl Drop for Metered {
    fn drop(&mut self) {
        let usage = self.frames.usage();
        self.settle(Usage { estimated: true, ..usage });
    }
}

enum Next {
    Bytes(Bytes),
    Done(Bytes),
    Failed(Bytes),
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Broken(#[from] Broken),
    #[error(transparent)]
    Stream(#[from] BadStream),
    #[error(transparent)]
    Gzip(#[from] BadGzip),
    #[error("the answer is too large")]
    TooLarge,
}

impl Flow {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        loop {
            let step = match self.answer.poll_chunk(cx) {
                Poll::Pending if self.out.is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready(Next::Bytes(self.out.split().freeze())),
                Poll::Ready(Some(Ok(chunk))) => self.take(&chunk),
                Poll::Ready(Some(Err(broken))) => Err(broken.into()),
                Poll::Ready(None) => {
                    self.metered.frames.end(&mut self.out).map(|()| Progress::Done).map_err(Into::into)
                }
            };
            return Poll::Ready(match step {
                Ok(Progress::Going) if self.out.is_empty() => continue,
                Ok(Progress::Going) if self.answer.is_gathering() && self.out.len() < limits::GATHERED_PIECE => {
                    continue;
                }
                Ok(Progress::Going) => {
                    // Not before: nothing is waited for in front of the first words.
                    self.choose_pace();
                    Next::Bytes(self.out.split().freeze())
                }
                Ok(Progress::Done) => {
                    let usage = self.metered.frames.usage();
                    self.metered.settle(usage);
                    Next::Done(self.out.split().freeze())
                }
                Err(trouble) => self.fail(&trouble),
            });
        }
    }

    /// Few streams are passed on piece by piece; of many, each piece costs what the others wait for.
    fn choose_pace(&mut self) {
        let under_way = limits::EXCHANGES.saturating_sub(self.permit.semaphore().available_permits());
        if under_way >= limits::GATHER_FROM {
            self.answer.gather();
        } else {
            self.answer.hurry();
        }
    }

    fn take(&mut self, chunk: &[u8]) -> Result<Progress, Trouble> {
        let Some(unzipping) = &mut self.unzipping else {
            self.read += chunk.len();
            return self.take_plain(chunk);
        };
        // In pieces: a small one may unfold into a large one.
        for piece in chunk.chunks(limits::ZIPPED_PIECE_BYTES) {
            let plain = unzipping.take(piece)?;
            self.read += plain.len();
            let progress = self.metered.frames.take(&plain, &mut self.out)?;
            if self.read > limits::ANSWER_BYTES {
                return Err(Trouble::TooLarge);
            }
            if progress == Progress::Done {
                return Ok(progress);
            }
        }
        Ok(Progress::Going)
    }

    fn take_plain(&mut self, chunk: &[u8]) -> Result<Progress, Trouble> {
        if self.read > limits::ANSWER_BYTES {
            return Err(Trouble::TooLarge);
        }
        self.out.reserve(chunk.len() + limits::ADDED_BYTES);
        Ok(self.metered.frames.take(chunk, &mut self.out)?)
    }

    fn fail(&mut self, trouble: &Trouble) -> Next {
        tracing::warn!(provider = self.served.upstream.name, request = self.request_id, %trouble, "a stream failed");
        crate::metrics::stream_failed(&self.served.model.id);
        if self.metered.frames.has_content() {
            let usage = self.metered.frames.usage();
            self.metered.settle(Usage { estimated: true, ..usage });
        } else if let Some(ticket) = self.metered.ticket.take() {
            ticket.release();
        }
        let fault = if matches!(trouble, Trouble::Broken(Broken::Slow)) { Fault::Slow } else { Fault::FAILED };
        let refusal = Refusal::upstream(fault).json();
        for part in ["data: ", refusal.as_str(), "\n\n"] {
            self.out.extend_from_slice(part.as_bytes());
        }
        Next::Failed(self.out.split().freeze())
    }

    /// Everything was said. The connection is kept if its end comes, which is looked for aside: clients that wait for
    /// the end of their answer do not wait for the end of the provider's.
    fn hang_up(mut self: Box<Self>, cx: &mut Context<'_>, drains: &Drains) {
        // The next request may want the connection.
        self.answer.hurry();
        match self.poll_end(cx) {
            Poll::Ready(at_end) => self.leave(at_end),
            Poll::Pending => drains.take_over(self.await_end()),
        }
    }

    async fn await_end(mut self: Box<Self>) {
        let end = tokio::time::timeout(limits::STREAM_END, poll_fn(|cx| self.poll_end(cx)));
        let at_end = end.await.unwrap_or(false);
        self.leave(at_end);
    }

    /// Whether the answer ends where it should.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            match ready!(self.answer.poll_chunk(cx)) {
                None => return Poll::Ready(true),
                Some(Ok(chunk)) if self.read <= limits::ANSWER_BYTES => self.read += chunk.len().max(1),
                Some(_) => return Poll::Ready(false),
            }
        }
    }

    fn leave(self: Box<Self>, at_end: bool) {
        let Self { answer, served, .. } = *self;
        if at_end {
            served.upstream.keep(answer.into_line());
        }
    }

    /// Reads to the end without anybody to give it to.
    async fn read_out(mut self: Box<Self>) {
        loop {
            match poll_fn(|cx| self.poll(cx)).await {
                Next::Bytes(_) => {}
                Next::Done(_) => {
                    self.answer.hurry();
                    return self.await_end().await;
                }
                Next::Failed(_) => return,
            }
        }
    }
}
