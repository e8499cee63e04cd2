//! The end of a provider's answer, after the last frame of its stream.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, ready},
};

use gateway_request::models::ServedModel;
use upstream::UpstreamResponse;

/// The rest of a provider's answer after the last frame of its stream, when the completion has ended.
pub(super) struct AnswerRest {
    pub(super) answer: UpstreamResponse,
    pub(super) model: Arc<ServedModel>,
    /// The bytes of the stream read so far.
    pub(super) read: usize,
}

impl AnswerRest {
    pub(super) async fn read(mut self) {
        let end = tokio::time::timeout(limits::STREAM_END, poll_fn(|cx| self.poll(cx)));
        let is_at_end = end.await.unwrap_or(false);
        self.release_connection(is_at_end);
    }

    /// Polls for the end of the answer's body. Ready with whether it ended properly.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            match ready!(self.answer.poll_chunk(cx)) {
                None => return Poll::Ready(true),
                Some(Ok(chunk)) if self.read <= limits::ANSWER_BYTES => self.read += chunk.len().max(1),
                Some(_) => return Poll::Ready(false),
            }
        }
    }

    /// Returns the connection to the pool if the answer was read to its end, and closes it otherwise.
    pub(super) fn release_connection(self, is_at_end: bool) {
        if is_at_end {
            self.model.upstream.return_to_pool(self.answer.into_connection());
        }
    }
}
