//! The body of admin's response, read by its own task, so that a slow client does not prolong the request.
//!
//! Bytes that wait for the client are charged as bytes in flight. A response that fits into the available memory is
//! read whole, and charged with its length; its bytes are in one place at a time, whether admin's connection or the
//! client's is slow. A larger one, or one while memory is short, is read at its client's pace, as long as the request
//! lasts, and charged with all buffers on the way.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use fairness::budget::{ByteGrant, ExhaustedError};
use http::{HeaderMap, HeaderValue, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_types::BodyError;
use hyper::body::Incoming;
use tokio::sync::{Notify, mpsc};

use super::held::HeldResources;

/// The media type of an event stream, which hardly ever has anything to read ahead.
const EVENTS: &[u8] = b"text/event-stream";

/// A response was aborted because others need its turn.
#[derive(Debug, thiserror::Error)]
#[error("others need the turn of this answer, which is not being taken")]
struct TurnRevokedError;

pub(super) struct RelayedBody {
    pieces: mpsc::UnboundedReceiver<Result<Bytes, BodyError>>,
    shared: Arc<RelayState>,
    left: Option<u64>,
    is_over: bool,
}

struct RelayState {
    /// Bytes that were read and wait for the client.
    queued: AtomicUsize,
    taken: Notify,
    memory: Mutex<RelayMemory>,
}

struct RelayMemory {
    grant: Option<ByteGrant>,
    /// Whether admin's response has ended: then only the waiting bytes are charged.
    has_ended: bool,
}

impl RelayState {
    fn memory(&self) -> MutexGuard<'_, RelayMemory> {
        // No code panics while it holds the lock.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.memory().has_ended = true;
        self.give_back();
    }

    /// Releases memory beyond the waiting bytes, once admin's response has ended.
    fn give_back(&self) {
        let mut memory = self.memory();
        let queued = self.queued.load(Ordering::Acquire);
        if memory.has_ended
            && let Some(grant) = &mut memory.grant
        {
            grant.shrink_to(queued as u64);
        }
    }
}

/// Starts to read `answer`, with these `headers`, for a request that holds `held`.
pub(super) fn relay(answer: Incoming, headers: &HeaderMap, held: Arc<HeldResources>) -> RelayedBody {
    let left = answer.size_hint().exact();
    let mut grant = held.take_grant();
    let mut room = limits::RELAYED_BYTES;
    let is_event_stream =
        headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).is_some_and(|kind| kind.starts_with(EVENTS));
    if let Some(grant) = &mut grant {
        if is_event_stream {
            grant.shrink_to(limits::EVENT_STREAM_BYTES);
        } else if let Some(left) = left.filter(|left| *left <= limits::RELAYED_WHOLE_BYTES)
            && charge_whole(grant, left).is_ok()
        {
            room = usize::MAX;
        }
    }
    let memory = Mutex::new(RelayMemory { grant, has_ended: false });
    let shared = Arc::new(RelayState { queued: AtomicUsize::new(0), taken: Notify::new(), memory });
    #[expect(clippy::disallowed_methods, reason = "no piece is empty, and `room` bounds their bytes")]
    let (sender, pieces) = mpsc::unbounded_channel();
    tokio::spawn(read(answer, sender, shared.clone(), held, room));
    RelayedBody { pieces, shared, left, is_over: false }
}

/// Charges a response of `bytes` bytes that is read whole: with its length, and with what proxying takes besides.
fn charge_whole(grant: &mut ByteGrant, bytes: u64) -> Result<(), ExhaustedError> {
    let needed = limits::PROXIED_BYTES + bytes;
    if let Some(more) = needed.checked_sub(grant.bytes()) {
        return grant.try_grow(more);
    }
    grant.shrink_to(needed);
    Ok(())
}

/// Reads `answer` to its end, at most `room` bytes ahead of the client.
async fn read(
    mut answer: Incoming,
    pieces: mpsc::UnboundedSender<Result<Bytes, BodyError>>,
    shared: Arc<RelayState>,
    held: Arc<HeldResources>,
    room: usize,
) {
    loop {
        let frame = tokio::select! {
            biased;
            () = pieces.closed() => return,
            () = held.revoked() => Some(Err(TurnRevokedError.into())),
            frame = answer.frame() => frame.map(|frame| frame.map_err(BodyError::from)),
        };
        match frame {
            None => break,
            Some(Err(error)) => {
                let _ = pieces.send(Err(error));
                break;
            }
            Some(Ok(frame)) => {
                // Trailers are dropped.
                if let Ok(bytes) = frame.into_data()
                    && !bytes.is_empty()
                {
                    shared.queued.fetch_add(bytes.len(), Ordering::AcqRel);
                    let _ = pieces.send(Ok(bytes));
                }
            }
        }
        if shared.queued.load(Ordering::Acquire) < room {
            continue;
        }
        let _waits = held.waits_for_client();
        while shared.queued.load(Ordering::Acquire) >= room {
            tokio::select! {
                () = shared.taken.notified() => {}
                () = pieces.closed() => return,
                () = held.revoked() => {
                    let _ = pieces.send(Err(TurnRevokedError.into()));
                    return shared.end();
                }
            }
        }
    }
    // In this order: a request that waits for the turn also needs memory.
    shared.end();
    drop(held);
}

impl RelayedBody {
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let piece = ready!(self.pieces.poll_recv(cx));
        let Some(Ok(bytes)) = piece else {
            self.is_over = true;
            return Poll::Ready(piece.map(|failed| failed.map(Frame::data)));
        };
        self.shared.queued.fetch_sub(bytes.len(), Ordering::AcqRel);
        self.shared.taken.notify_one();
        self.shared.give_back();
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes.len() as u64);
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.is_over || self.left == Some(0)
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

/// The body of admin's response. Its bytes are charged until they are read.
pub struct AdminBody {
    answer: AnswerBody,
}

enum AnswerBody {
    /// An empty body.
    Empty,
    /// Passed on as it arrives.
    Relayed(RelayedBody),
    /// Read whole, while the request's resources are still held.
    Whole { bytes: Bytes, _held: Arc<HeldResources> },
}

impl AdminBody {
    pub(super) fn relayed(answer: Incoming, headers: &HeaderMap, held: Arc<HeldResources>) -> Self {
        let answer =
            if answer.is_end_stream() { AnswerBody::Empty } else { AnswerBody::Relayed(relay(answer, headers, held)) };
        Self { answer }
    }

    pub(super) fn whole(answer: Bytes, held: Arc<HeldResources>) -> Self {
        Self { answer: AnswerBody::Whole { bytes: answer, _held: held } }
    }
}

impl Body for AdminBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.answer {
            AnswerBody::Empty => Poll::Ready(None),
            AnswerBody::Relayed(answer) => answer.poll_frame(cx),
            AnswerBody::Whole { bytes, .. } if bytes.is_empty() => Poll::Ready(None),
            AnswerBody::Whole { bytes, .. } => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.answer {
            AnswerBody::Empty => true,
            AnswerBody::Relayed(answer) => answer.is_end_stream(),
            AnswerBody::Whole { bytes, .. } => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.answer {
            AnswerBody::Empty => SizeHint::with_exact(0),
            AnswerBody::Relayed(answer) => answer.size_hint(),
            AnswerBody::Whole { bytes, .. } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use fairness::budget::{BudgetLimits, ByteBudget};

    use super::*;

    #[test]
    fn a_response_that_is_read_whole_is_charged_with_its_length() {
        const TOTAL: u64 = 1_000_000;
        let budget = ByteBudget::new(BudgetLimits { total: TOTAL, client: TOTAL, connection: TOTAL });
        let account = budget.common_account();
        for (bytes, is_charged) in [(100, true), (limits::HANDED_BYTES, true), (500_000, true), (TOTAL, false)] {
            let mut grant = account.try_take(limits::HANDED_BYTES).unwrap();
            assert_eq!(charge_whole(&mut grant, bytes).is_ok(), is_charged, "{bytes}");
            let charged = if is_charged { limits::PROXIED_BYTES + bytes } else { limits::HANDED_BYTES };
            assert_eq!((grant.bytes(), budget.used()), (charged, charged), "{bytes}");
        }
    }
}
