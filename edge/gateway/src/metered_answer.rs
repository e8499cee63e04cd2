//! An answer and its reservation.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use config::models::Model;
use domain::usage::{Ending, Microcents};
use gateway_answer::json_answer;
use gateway_formats::{AnswerFrames, NativeAnswer};
use meter::Reservation;
use openai::{usage::TokenUsage, usage_report::ExpectedUsage};
use traces::CompletionSpan;

use super::{drains::DisconnectFlag, metered_frames::MeteredFrames};

/// An answer, as far as it was read, with its reservation.
///
/// If it is dropped early because the client left, and the provider received the request, it is settled by an estimate:
/// from what was read, or from how long the provider worked on what was not. If there was no place to read it to its
/// end, it is settled by the most that it may have used.
pub(super) struct MeteredAnswer {
    pub(super) read: BytesMut,
    /// `None` once settled, released or handed over.
    reservation: Option<Reservation>,
    expected: ExpectedUsage,
    /// Reads the answer of a provider that speaks the client's own format.
    native: Option<Arc<NativeAnswer>>,
    /// Whether the provider is probably producing a stream.
    pub(super) is_stream: bool,
    asked: Arc<RequestSentAt>,
    disconnected: DisconnectFlag,
}

/// When the request went to a provider that may be working on it.
#[derive(Default)]
struct RequestSentAt(Mutex<Option<Instant>>);

impl RequestSentAt {
    fn set(&self, at: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    fn get(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MeteredAnswer {
    pub(super) fn new(
        reservation: Reservation,
        expected: ExpectedUsage,
        is_stream: bool,
        disconnected: DisconnectFlag,
    ) -> Self {
        let (read, asked) = (BytesMut::new(), Arc::default());
        Self { read, reservation: Some(reservation), expected, native: None, is_stream, asked, disconnected }
    }

    pub(super) fn reservation_opener(&self) -> impl Fn() + Clone + Send + 'static {
        let (open, asked) = (self.reservation.as_ref().map(Reservation::open_callback), self.asked.clone());
        move || {
            asked.set(Some(Instant::now()));
            if let Some(open) = &open {
                open();
            }
        }
    }

    /// Hands the reservation over to the frames of a stream, for the request with this id.
    pub(super) fn into_frames(mut self, frames: AnswerFrames, request_id: String) -> MeteredFrames {
        MeteredFrames::new(frames, self.reservation.take(), request_id, self.disconnected.clone())
    }

    pub(super) fn span(&self) -> Option<&CompletionSpan> {
        self.reservation.as_ref().and_then(Reservation::span)
    }

    /// Returns whether a provider received the request, or is just receiving it, and may be working on it.
    pub(super) fn is_request_sent(&self) -> bool {
        self.asked.get().is_some() && self.reservation.as_ref().is_some_and(Reservation::is_sent)
    }

    /// Records that the last provider cannot have begun, so nothing is charged unless another one gets the request.
    pub(super) fn set_not_begun(&self) {
        self.asked.set(None);
    }

    pub(super) fn serve_by(&self, model: &Arc<Model>) {
        if let Some(reservation) = &self.reservation {
            reservation.set_serving_model(model);
        }
    }

    /// Reads the rest of the answer in `native`'s format.
    pub(super) fn read_as(&mut self, native: Option<Arc<NativeAnswer>>) {
        self.native = native;
    }

    /// Returns the usage of what was read plus `unread` for possible content that was not, or `None` before the
    /// beginning.
    fn usage_if_begun(&self, model: &Model, unread: &TokenUsage) -> Option<TokenUsage> {
        match &self.native {
            None => {
                let beginning = json_answer::parse_partial(&self.read, model, &self.expected)?;
                Some(beginning.usage_with_unread(unread))
            }
            Some(native) => native.partial_usage(&self.read, &self.expected, unread),
        }
    }

    /// Settles an answer that was read to its end, as `ending` unless the client has left. Returns its cost.
    pub(super) fn settle(mut self, usage: TokenUsage, ending: Ending) -> Option<Microcents> {
        let ending = if self.disconnected.is_set() { Ending::ClientGone } else { ending };
        Some(self.reservation.take()?.settle(usage, ending))
    }

    /// Settles an answer that the provider failed to complete. As with a stream, the part that had begun is charged.
    pub(super) fn settle_failed(self) {
        let unread = self.expected.estimate(0);
        self.settle_if_begun(&unread, Ending::ProviderError);
    }

    /// Settles an answer whose rest is not read, although the provider may have written all of it. The charge is the
    /// larger of what was read and an estimate from how long the provider worked.
    pub(super) fn settle_partly_read(self) {
        let unread = self.expected.estimate_unread(self.time_worked());
        self.settle_if_begun(&unread, Ending::Cut);
    }

    fn settle_if_begun(mut self, unread: &TokenUsage, ending: Ending) {
        if let Some(reservation) = self.reservation.take() {
            match self.usage_if_begun(&reservation.served(), unread) {
                Some(usage) => _ = reservation.settle(usage, ending),
                None => reservation.release(),
            }
        }
    }

    /// Settles an answer that the edge cuts off, by what was read, if the provider received the request.
    pub(super) fn settle_so_far(mut self) {
        let unread = self.expected.estimate(0);
        self.settle_or(unread, Ending::Cut);
    }

    /// Settles an answer that was not read to its end, by what was read plus `unread` for the rest.
    fn settle_or(&mut self, unread: TokenUsage, ending: Ending) {
        let is_asked = self.is_request_sent();
        let Some(reservation) = self.reservation.take() else { return };
        let begun = self.usage_if_begun(&reservation.served(), &unread);
        let usage = begun.or_else(|| self.read.trim_ascii().is_empty().then_some(unread));
        match usage.filter(|_| is_asked) {
            Some(usage) => _ = reservation.settle(usage, ending),
            None => reservation.release(),
        }
    }

    fn time_worked(&self) -> Duration {
        self.asked.get().map(|asked| asked.elapsed()).unwrap_or_default()
    }

    pub(super) fn release(mut self) {
        if let Some(reservation) = self.reservation.take() {
            reservation.release();
        }
    }
}

impl Drop for MeteredAnswer {
    fn drop(&mut self) {
        let unread = if self.disconnected.is_unread() {
            self.expected.estimate_at_most()
        } else {
            // A stream that has not begun has no content yet.
            let worked = if self.is_stream { Duration::ZERO } else { self.time_worked() };
            self.expected.estimate_unread(worked)
        };
        self.settle_or(unread, Ending::ClientGone);
    }
}
