//! Errors of requests with an `Idempotency-Key`.

use super::{ApiError, ErrorCode};
use crate::limits;

impl ApiError {
    /// Marked final: `OpenAI`'s clients retry after 409, which would not help here.
    pub(in crate::gateway) fn idempotency_conflict() -> Self {
        let message = "This Idempotency-Key was used for another request, with another path or body. Use a new key for a new request.";
        Self::new(ErrorCode::IdempotencyConflict, message).with_final()
    }

    pub(in crate::gateway) fn completion_gone() -> Self {
        let message = "The answer of this Idempotency-Key, or what follows the Last-Event-ID in it, is not kept any more. Ask again \
                       with a new key and without Last-Event-ID: that is a completion of its own.";
        Self::new(ErrorCode::CompletionGone, message).with_final()
    }

    pub(in crate::gateway) fn answer_unreachable() -> Self {
        let message = "The gateway cannot reach the answer of this Idempotency-Key just now. Try again shortly, with the same key.";
        Self::new(ErrorCode::ServiceUnavailable, message).with_retry_after(limits::EDGE_RETRY)
    }
}
