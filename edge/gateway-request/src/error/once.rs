//! Errors of requests with an `Idempotency-Key`.

use openai::error_code::ErrorCode;

use super::ApiError;

impl ApiError {
    /// Marked final: `OpenAI`'s clients retry after 409, which would not help here.
    pub fn idempotency_conflict() -> Self {
        let message = "This Idempotency-Key was used for another request, with another path or body. Use a new key for a new request.";
        Self::new(ErrorCode::IdempotencyConflict, message).with_final()
    }

    /// Creates the error for an answer, or the rest of one after a `Last-Event-ID`, that is no longer kept, with
    /// status 410. Clients are told not to retry.
    pub fn completion_gone() -> Self {
        let message = "The answer of this Idempotency-Key, or what follows the Last-Event-ID in it, is not kept any more. Ask again \
                       with a new key and without Last-Event-ID: that is a completion of its own.";
        Self::new(ErrorCode::CompletionGone, message).with_final()
    }

    /// Creates the error for a kept answer that cannot be fetched from its edge at present, with status 503.
    pub fn answer_unreachable() -> Self {
        let message = "The gateway cannot reach the answer of this Idempotency-Key just now. Try again shortly, with the same key.";
        Self::new(ErrorCode::ServiceUnavailable, message).with_retry_after(limits::EDGE_RETRY)
    }
}
