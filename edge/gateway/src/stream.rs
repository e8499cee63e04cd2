//! The body of a streamed answer.
//!
//! It reads from the provider when the client's connection polls for more. If the client disconnects, the rest is read
//! in the background to learn the usage. While the provider is silent, the client receives comments.

mod keep_alive;
mod rest;

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use bytes::{Bytes, BytesMut};
use domain::{PayingAccount, usage::Ending};
use fairness::TurnPermit;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use gateway_answer::sse::{StreamError, StreamProgress};
use gateway_formats::EventWriter;
use gateway_request::{
    error::{ApiError, ProviderError, RequestFacts},
    models::ServedModel,
};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;
use upstream::{GzipDecoder, GzipError, ReadError, UpstreamResponse};

pub(super) use self::keep_alive::KeepAliveTimer;
use self::rest::AnswerRest;
use super::{drains::DrainTasks, metered_frames::MeteredFrames};

/// A comment, which clients ignore.
const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

pub(super) struct StreamBody {
    state: StreamState,
    /// The part that was read before the response head was sent.
    first: Option<StreamStep>,
    drains: DrainTasks,
}

enum StreamState {
    Relaying(Box<StreamRelay>),
    /// The error frame has been handed out and gets a moment to be sent before the connection is aborted.
    Aborting(Pin<Box<Sleep>>),
    Ended,
}

/// The stream ended with an error frame. Its connection is aborted so that it does not look complete.
#[derive(Debug, thiserror::Error)]
#[error("the provider's stream failed")]
pub(super) struct StreamAbortedError;

impl StreamBody {
    /// Begins a stream: waits for the model's first words, or until a keep-alive is due. Fails if the stream fails
    /// first.
    pub(super) async fn begin(relay: StreamRelay, drains: DrainTasks) -> Result<Self, ProviderError> {
        let mut body = Self { state: StreamState::Relaying(Box::new(relay)), first: None, drains };
        let StreamState::Relaying(relay) = &mut body.state else { return Ok(body) };
        let first = poll_fn(|cx| relay.poll_step(cx)).await;
        if let StreamStep::Failed(_, error, _) = &first
            && !relay.metered.frames.has_words()
        {
            let error = *error;
            body.state = StreamState::Ended;
            return Err(error);
        }
        body.first = Some(first);
        Ok(body)
    }

    pub(super) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, StreamAbortedError>>> {
        match &mut self.state {
            StreamState::Relaying(relay) => {
                let step = match self.first.take() {
                    Some(first) => first,
                    None => ready!(relay.poll_step(cx)),
                };
                let bytes = match step {
                    StreamStep::Bytes(bytes) => bytes,
                    StreamStep::Done(bytes) => {
                        if let StreamState::Relaying(relay) = std::mem::replace(&mut self.state, StreamState::Ended) {
                            relay.finish(&self.drains);
                        }
                        bytes
                    }
                    StreamStep::Failed(bytes, _, FailureNotice::Said) => {
                        self.state = StreamState::Ended;
                        bytes
                    }
                    StreamStep::Failed(bytes, _, FailureNotice::Abort) => {
                        self.state = StreamState::Aborting(Box::pin(sleep(limits::ABORT_GRACE)));
                        bytes
                    }
                };
                Poll::Ready(Some(Ok(bytes)))
            }
            StreamState::Aborting(grace) => {
                ready!(grace.as_mut().poll(cx));
                self.state = StreamState::Ended;
                Poll::Ready(Some(Err(StreamAbortedError)))
            }
            StreamState::Ended => Poll::Ready(None),
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        matches!(self.state, StreamState::Ended)
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        let StreamState::Relaying(mut relay) = std::mem::replace(&mut self.state, StreamState::Ended) else { return };
        match self.first.take() {
            Some(StreamStep::Done(_)) => relay.finish(&self.drains),
            Some(StreamStep::Failed(..)) => {}
            Some(StreamStep::Bytes(_)) | None => match self.drains.try_place(relay.turn.key()) {
                Some(place) => self.drains.spawn(place, relay.drain(self.drains.clone())),
                None => relay.metered.settle_unread(),
            },
        }
    }
}

/// A provider's stream that is relayed to the client.
pub(super) struct StreamRelay {
    pub(super) answer: UpstreamResponse,
    pub(super) metered: MeteredFrames,
    pub(super) gzip: Option<GzipDecoder>,
    pub(super) model: Arc<ServedModel>,
    pub(super) facts: RequestFacts,
    pub(super) keep_alive: KeepAliveTimer,
    /// Whether the response head is unsent: it waits for the model's first words, or until the first comment is due.
    pub(super) is_beginning: bool,
    /// The completion's turn, held until the stream ends.
    pub(super) turn: TurnPermit<PayingAccount>,
    /// The decoded bytes read so far.
    pub(super) read: usize,
    pub(super) events: EventWriter,
    pub(super) out: BytesMut,
    /// Signals that the stream is cut off. As a set of one, its member is polled only when it was woken itself, not for
    /// every piece of the stream.
    pub(super) cut_off: FuturesUnordered<WaitForCancellationFutureOwned>,
}

enum StreamStep {
    /// More bytes of an ongoing stream.
    Bytes(Bytes),
    /// The last bytes of a complete stream.
    Done(Bytes),
    /// The last bytes of a failed stream with its error frame, why it failed, and how the client learns of it.
    Failed(Bytes, ProviderError, FailureNotice),
}

/// How the client learns that a failed stream is not complete.
#[derive(Debug, Clone, Copy)]
enum FailureNotice {
    /// The last event reports the failure.
    Said,
    /// The connection is aborted.
    Abort,
}

#[derive(Debug, thiserror::Error)]
enum RelayError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Gzip(#[from] GzipError),
    #[error("the answer is too large")]
    TooLarge,
    #[error("the edge stops")]
    CutOff,
}

impl StreamRelay {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<StreamStep> {
        if let Poll::Ready(Some(())) = self.cut_off.poll_next_unpin(cx) {
            return Poll::Ready(self.fail(&RelayError::CutOff));
        }
        loop {
            let progress = match self.answer.poll_chunk(cx) {
                Poll::Pending if self.out.is_empty() || self.is_beginning => {
                    ready!(self.keep_alive.poll(cx));
                    let is_silent = self.out.is_empty();
                    self.is_beginning = false;
                    return Poll::Ready(if is_silent {
                        StreamStep::Bytes(Bytes::from_static(KEEP_ALIVE))
                    } else {
                        self.take_ready_bytes()
                    });
                }
                Poll::Pending => return Poll::Ready(self.take_ready_bytes()),
                Poll::Ready(Some(Ok(chunk))) => self.process(&chunk),
                Poll::Ready(Some(Err(error))) => Err(error.into()),
                Poll::Ready(None) => {
                    let ended = self.events.write(&mut self.out, |out| self.metered.frames.end(out));
                    ended.map(|()| StreamProgress::Complete).map_err(Into::into)
                }
            };
            return Poll::Ready(match progress {
                Ok(StreamProgress::Ongoing) if self.out.is_empty() => continue,
                Ok(StreamProgress::Ongoing) if self.is_waiting_for_words() => continue,
                Ok(StreamProgress::Ongoing) if self.answer.is_batching() && self.out.len() < limits::GATHERED_PIECE => {
                    continue;
                }
                Ok(StreamProgress::Ongoing) => {
                    // After the first words, which are never delayed.
                    self.choose_batching();
                    self.take_ready_bytes()
                }
                Ok(StreamProgress::Complete) => {
                    self.metered.settle_whole();
                    StreamStep::Done(self.out.split().freeze())
                }
                Err(error) => self.fail(&error),
            });
        }
    }

    /// Returns whether the stream has no content yet. If it fails, it can still be answered with an error status.
    fn is_waiting_for_words(&mut self) -> bool {
        self.is_beginning &= !self.metered.frames.has_words() && self.out.len() < limits::GATHERED_PIECE;
        self.is_beginning
    }

    /// Returns the bytes that are ready.
    fn take_ready_bytes(&mut self) -> StreamStep {
        self.keep_alive.restart(self.answer.last_chunk());
        if self.metered.frames.has_words() {
            self.answer.set_begun();
        }
        StreamStep::Bytes(self.out.split().freeze())
    }

    /// Batches the stream's pieces while the edge is busy. With few streams, each piece is passed on immediately; with
    /// many, the time for each piece delays the others.
    fn choose_batching(&mut self) {
        if self.turn.taken() >= limits::GATHER_FROM {
            self.answer.start_batching();
        } else {
            self.answer.stop_batching();
        }
    }

    /// Decodes a chunk and appends the resulting events to `out`.
    fn process(&mut self, chunk: &[u8]) -> Result<StreamProgress, RelayError> {
        let Some(gzip) = &mut self.gzip else {
            self.read += chunk.len();
            return self.process_plain(chunk);
        };
        // Split because a small piece may decode to a large one.
        for piece in chunk.chunks(limits::ZIPPED_PIECE_BYTES) {
            let plain = gzip.decode(piece)?;
            self.read += plain.len();
            let progress = self.events.write(&mut self.out, |out| self.metered.push(&plain, out))?;
            if self.read > limits::ANSWER_BYTES {
                return Err(RelayError::TooLarge);
            }
            if progress == StreamProgress::Complete {
                return Ok(progress);
            }
        }
        Ok(StreamProgress::Ongoing)
    }

    fn process_plain(&mut self, chunk: &[u8]) -> Result<StreamProgress, RelayError> {
        if self.read > limits::ANSWER_BYTES {
            return Err(RelayError::TooLarge);
        }
        self.out.reserve(chunk.len() + limits::ADDED_BYTES);
        Ok(self.events.write(&mut self.out, |out| self.metered.push(chunk, out))?)
    }

    /// Settles the usage so far and ends the stream with an error frame.
    fn fail(&mut self, error: &RelayError) -> StreamStep {
        let (provider, request) = (&*self.model.upstream.name, self.metered.request_id());
        tracing::warn!(provider, request, %error, "a stream failed");
        edge_metrics::stream_failed(&self.model.model.id);
        // A provider that was cut off has already read the prompt.
        if matches!(error, RelayError::CutOff) {
            self.metered.settle_so_far(Ending::Cut);
        } else {
            self.metered.settle_failed();
        }
        let frames = &self.metered.frames;
        let error = match error {
            RelayError::Read(ReadError::Timeout) => ProviderError::Timeout,
            RelayError::Stream(error) => error.to_provider_error(frames.has_usage(), &self.facts),
            RelayError::CutOff => ProviderError::CutOff,
            _ => ProviderError::FAILED,
        };
        let told = ApiError::from(error);
        if let Some(span) = self.metered.span() {
            span.record_error(told.code());
        }
        let is_said = self.events.fail(told, &mut self.out);
        let notice = if is_said { FailureNotice::Said } else { FailureNotice::Abort };
        StreamStep::Failed(self.out.split().freeze(), error, notice)
    }

    /// Ends the completion, and waits in the background for the end of the provider's answer after its last frame, so
    /// that the connection can be reused. The client does not wait for that.
    fn finish(self: Box<Self>, drains: &DrainTasks) {
        let Self { mut answer, model, read, .. } = *self;
        // The next request may use the connection.
        answer.stop_batching();
        let mut rest = AnswerRest { answer, model, read };
        match rest.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(is_at_end) => rest.release_connection(is_at_end),
            Poll::Pending => drains.spawn_end(rest.read()),
        }
    }

    /// Reads the stream to its end without a client.
    async fn drain(mut self: Box<Self>, drains: DrainTasks) {
        self.metered.abandon();
        // Skip the translation, which nobody would read.
        self.events = EventWriter::Chat;
        loop {
            match poll_fn(|cx| self.poll_step(cx)).await {
                StreamStep::Bytes(_) => {}
                StreamStep::Done(_) => return self.finish(&drains),
                StreamStep::Failed(..) => return,
            }
        }
    }
}
