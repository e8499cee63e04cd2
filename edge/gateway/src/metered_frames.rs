//! The frames of a stream and their reservation.

use bytes::BytesMut;
use domain::usage::{Ending, Microcents};
use gateway_answer::sse::{StreamError, StreamProgress};
use gateway_formats::AnswerFrames;
use meter::Reservation;
use traces::CompletionSpan;

use super::drains::DisconnectFlag;

/// The frames of a stream with the reservation that is settled from them.
///
/// A stream that is dropped early is settled from its frames so far, or an estimate based on them.
pub(super) struct MeteredFrames {
    pub(super) frames: AnswerFrames,
    /// `None` once settled or released.
    reservation: Option<Reservation>,
    request_id: String,
    span: Option<CompletionSpan>,
    /// Whether the client left before the stream began.
    disconnected: DisconnectFlag,
    /// Whether the client has left since then.
    is_abandoned: bool,
}

impl MeteredFrames {
    pub(super) fn new(
        frames: AnswerFrames,
        reservation: Option<Reservation>,
        request_id: String,
        disconnected: DisconnectFlag,
    ) -> Self {
        let span = reservation.as_ref().and_then(Reservation::span).cloned();
        Self { frames, reservation, request_id, span, disconnected, is_abandoned: false }
    }

    pub(super) fn request_id(&self) -> &str {
        &self.request_id
    }

    pub(super) fn span(&self) -> Option<&CompletionSpan> {
        self.span.as_ref()
    }

    pub(super) fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    pub(super) fn push(&mut self, chunk: &[u8], out: &mut BytesMut) -> Result<StreamProgress, StreamError> {
        let from = out.len();
        let progress = self.frames.push(chunk, out);
        if let (Some(span), AnswerFrames::Chat(_)) = (&self.span, &self.frames) {
            span.record_finish_reasons(out.get(from..).unwrap_or_default());
        }
        progress
    }

    pub(super) fn trace_whole(&self, chat: &[u8]) {
        if let Some(span) = &self.span {
            span.record_finish_reasons(chat);
        }
    }

    /// Settles a complete stream. Returns its cost.
    pub(super) fn settle_whole(&mut self) -> Option<Microcents> {
        let ending = self.frames.ending();
        // Chat completions carry the ending in their frames.
        if let (Some(span), AnswerFrames::Native(_)) = (&self.span, &self.frames) {
            span.record_ending(ending);
        }
        let is_gone = self.is_abandoned || self.disconnected.is_set();
        let ending = if is_gone { Ending::ClientGone } else { ending };
        Some(self.reservation.take()?.settle(self.frames.usage(), ending))
    }

    /// Settles a stream that the provider failed to complete. If it failed before its first word, it is not charged.
    pub(super) fn settle_failed(&mut self) {
        if self.frames.has_content() {
            self.settle_so_far(Ending::ProviderError);
        } else if let Some(reservation) = self.reservation.take() {
            reservation.release();
        }
    }

    /// Settles a stream that stops early, for this reason.
    pub(super) fn settle_so_far(&mut self, ending: Ending) {
        if let Some(reservation) = self.reservation.take() {
            reservation.settle(self.frames.usage_so_far(), ending);
        }
    }

    /// Settles a stream whose client left and that nobody reads on, by the most that it may have used: the provider may
    /// write, and charge for, all of it.
    pub(super) fn settle_unread(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            reservation.settle(self.frames.usage_at_most(), Ending::ClientGone);
        }
    }
}

impl Drop for MeteredFrames {
    fn drop(&mut self) {
        if self.disconnected.is_unread() {
            self.settle_unread();
        }
        self.settle_so_far(Ending::ClientGone);
        self.frames.report_left_out(&self.request_id);
    }
}
