//! An answer together with the reservation for it.

use bytes::BytesMut;

use super::{
    json_answer,
    meter::{Reservation, Usage},
    sse::Frames,
    stream::MeteredFrames,
};

/// An answer, as far as it was read, together with its reservation.
///
/// One that is dropped before its end, because it is cut off or nobody is left to read it, is settled with the likely tokens
/// of its prompt, if the provider has been sent that, and an estimate of what was read.
pub(super) struct MeteredAnswer {
    pub(super) read: BytesMut,
    /// `None` once it is settled, released or handed on.
    reservation: Option<Reservation>,
    estimated_prompt: u64,
    max_completion: u64,
}

impl MeteredAnswer {
    /// An answer of which nothing was read. The prompt has `estimated_prompt` tokens, likely, and the answer at most
    /// `max_completion`.
    pub(super) fn new(reservation: Reservation, estimated_prompt: u64, max_completion: u64) -> Self {
        Self { read: BytesMut::new(), reservation: Some(reservation), estimated_prompt, max_completion }
    }

    /// Hands the reservation on to the frames of a stream.
    pub(super) fn into_frames(mut self, frames: Frames) -> MeteredFrames {
        MeteredFrames::new(frames, self.reservation.take())
    }

    /// Whether the provider has been sent the request, or is just being sent it.
    pub(super) fn is_asked(&self) -> bool {
        self.reservation.as_ref().is_some_and(Reservation::is_asked)
    }

    /// Settles an answer that was read to its end.
    pub(super) fn settle(mut self, usage: Usage) {
        if let Some(reservation) = self.reservation.take() {
            reservation.settle(usage);
        }
    }

    /// Settles an answer that the provider failed to complete: what was begun is paid, as it is of a stream.
    pub(super) fn settle_failed(mut self) {
        if let Some(reservation) = self.reservation.take() {
            match json_answer::usage_of_beginning(&self.read, self.estimated_prompt, self.max_completion) {
                Some(usage) => reservation.settle(usage),
                None => reservation.release(),
            }
        }
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
        let Some(reservation) = self.reservation.take() else { return };
        if reservation.is_asked() {
            let usage = json_answer::usage_of_beginning(&self.read, self.estimated_prompt, self.max_completion);
            reservation.settle(usage.unwrap_or(Usage {
                prompt: self.estimated_prompt,
                completion: 0,
                is_estimated: true,
            }));
        } else {
            reservation.release();
        }
    }
}
