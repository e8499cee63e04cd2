//! An answer together with the reservation for it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use config::models::Model;
use domain::usage::{Ending, Microcents};

use super::{
    drains::Disconnected,
    formats::NativeAnswer,
    json_answer,
    meter::{Reservation, Usage},
    metered_frames::MeteredFrames,
    sse::AnswerFrames,
    traces::Span,
    usage_report::Expected,
};

/// An answer, as far as it was read, together with its reservation.
///
/// One that is dropped before its end, because nobody is left to read it, is settled by an estimate if the provider has been asked:
/// by what was read, or by how long the provider has worked on what was not.
pub(super) struct MeteredAnswer {
    pub(super) read: BytesMut,
    /// `None` once it is settled, released or handed on.
    reservation: Option<Reservation>,
    expected: Expected,
    /// What reads the answer of a provider that was asked in the client's own format.
    native: Option<Arc<NativeAnswer>>,
    /// Whether the provider is at work on a stream, probably.
    pub(super) is_stream: bool,
    /// When the provider was asked that may be at work on it.
    asked: Arc<AskedAt>,
    /// Whether the client has left.
    disconnected: Disconnected,
}

/// When a provider was sent a request on which it may be at work.
#[derive(Default)]
struct AskedAt(Mutex<Option<Instant>>);

impl AskedAt {
    fn set(&self, at: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    fn get(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MeteredAnswer {
    /// An answer of which nothing was read, and for which the provider is about to be asked.
    pub(super) fn new(
        reservation: Reservation,
        expected: Expected,
        is_stream: bool,
        disconnected: Disconnected,
    ) -> Self {
        let (read, asked) = (BytesMut::new(), Arc::default());
        Self { read, reservation: Some(reservation), expected, native: None, is_stream, asked, disconnected }
    }

    /// A function that is to be called right before the provider is asked; see [`Reservation::opener`].
    pub(super) fn opener(&self) -> impl Fn() + Clone + Send + 'static {
        let (open, asked) = (self.reservation.as_ref().map(Reservation::opener), self.asked.clone());
        move || {
            asked.set(Some(Instant::now()));
            if let Some(open) = &open {
                open();
            }
        }
    }

    /// Hands the reservation on to the frames of a stream, of the request with this id.
    pub(super) fn into_frames(mut self, frames: AnswerFrames, request_id: String) -> MeteredFrames {
        MeteredFrames::new(frames, self.reservation.take(), request_id, self.disconnected.clone())
    }

    /// The completion's span.
    pub(super) fn span(&self) -> Option<&Span> {
        self.reservation.as_ref().and_then(Reservation::span)
    }

    /// Whether a provider has been sent the request, or is just being sent it, and may be at work on it.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.get().is_some() && self.reservation.as_ref().is_some_and(Reservation::is_asked)
    }

    /// The provider that was asked cannot have begun: until another one is asked, there is nothing to pay.
    pub(super) fn set_not_begun(&self) {
        self.asked.set(None);
    }

    /// Records that the provider of `model` is asked from now on.
    pub(super) fn serve_by(&self, model: &Arc<Model>) {
        if let Some(reservation) = &self.reservation {
            reservation.serve_by(model);
        }
    }

    /// Has what is read from now on read as the format of `native` has it.
    pub(super) fn read_as(&mut self, native: Option<Arc<NativeAnswer>>) {
        self.native = native;
    }

    /// The usage of what was read, with `unread` for words that may have been written and were not read. `None` if the answer has not begun.
    fn begun(&self, model: &Model, unread: &Usage) -> Option<Usage> {
        match &self.native {
            None => {
                let beginning = json_answer::beginning(&self.read, model, &self.expected)?;
                Some(beginning.usage_with_unread(unread))
            }
            Some(native) => native.beginning(&self.read, &self.expected, unread),
        }
    }

    /// Settles an answer that was read to its end, which is of this kind unless its client had left. Returns what it costs.
    pub(super) fn settle(mut self, usage: Usage, ending: Ending) -> Option<Microcents> {
        let ending = if self.disconnected.is_set() { Ending::ClientGone } else { ending };
        Some(self.reservation.take()?.settle(usage, ending))
    }

    /// Settles an answer that the provider failed to complete: what was begun is paid, as it is of a stream.
    pub(super) fn settle_failed(self) {
        let unread = self.expected.estimate(0);
        self.settle_begun(&unread, Ending::ProviderError);
    }

    /// Settles an answer that is not read on, although the provider may have written all of it: what was begun is paid, by how long the
    /// provider has worked on it if that is more than was read.
    pub(super) fn settle_partly_read(self) {
        let unread = self.expected.estimate_unread(self.worked());
        self.settle_begun(&unread, Ending::Cut);
    }

    fn settle_begun(mut self, unread: &Usage, ending: Ending) {
        if let Some(reservation) = self.reservation.take() {
            match self.begun(&reservation.served(), unread) {
                Some(usage) => _ = reservation.settle(usage, ending),
                None => reservation.release(),
            }
        }
    }

    /// Settles an answer that the edge cuts off: by what was read of it, if the provider has been asked.
    pub(super) fn settle_so_far(mut self) {
        let unread = self.expected.estimate(0);
        self.settle_or(unread, Ending::Cut);
    }

    /// Settles an answer that was not read to its end: by what was read, with `unread` for the words that were not.
    fn settle_or(&mut self, unread: Usage, ending: Ending) {
        let is_asked = self.is_asked();
        let Some(reservation) = self.reservation.take() else { return };
        let begun = self.begun(&reservation.served(), &unread);
        let usage = begun.or_else(|| self.read.trim_ascii().is_empty().then_some(unread));
        match usage.filter(|_| is_asked) {
            Some(usage) => _ = reservation.settle(usage, ending),
            None => reservation.release(),
        }
    }

    /// For how long the provider has worked on it.
    fn worked(&self) -> Duration {
        self.asked.get().map(|asked| asked.elapsed()).unwrap_or_default()
    }

    /// Releases the reservation of a completion that failed.
    pub(super) fn release(mut self) {
        if let Some(reservation) = self.reservation.take() {
            reservation.release();
        }
    }
}

impl Drop for MeteredAnswer {
    fn drop(&mut self) {
        // Of a stream that has not begun there is nothing yet.
        let worked = if self.is_stream { Duration::ZERO } else { self.worked() };
        self.settle_or(self.expected.estimate_unread(worked), Ending::ClientGone);
    }
}
