//! Maps provider answers that are no completions to errors for the client, by their status and text.

use std::{fmt::Debug, future::poll_fn};

use bytes::BytesMut;
use gateway_request::error::{ProviderError, RequestComplaint, RequestFault};
use http::StatusCode;
use upstream::{GzipDecoder, UpstreamResponse};

use super::{super::rate_headers, ProviderExchange};

impl ProviderExchange {
    /// Returns the client's error for an answer that is no completion, and discards the answer.
    pub(super) async fn classify_answer(&self, mut answer: UpstreamResponse, media_type: impl Debug) -> ProviderError {
        let retry_after = rate_headers::parse_retry_after(&answer.headers, &self.state.clock);
        let limit_resets = || retry_after.or_else(|| rate_headers::parse_reset(&answer.headers));
        let retry_after = if answer.status == StatusCode::TOO_MANY_REQUESTS { limit_resets() } else { retry_after };
        let status = answer.status.as_u16();
        // The reason for these statuses is in the text. Scaleway returns 416 for too many tokens, and some servers
        // return 500 for a prompt that is too long.
        let complaint = match status {
            400 | 413 | 416 | 422 | 500 => self.read_complaint(&mut answer).await,
            _ => None,
        };
        self.warn(&format_args!("status {status}, media type {media_type:?}, complaint {complaint:?}"));
        self.discard(answer);
        let refused = || ProviderError::Refused(self.facts.fault_for(complaint));
        match (status, complaint) {
            (413, None) => ProviderError::Refused(RequestFault::Size),
            (400 | 413 | 422, _) | (416, Some(_)) | (500, Some(RequestComplaint::ContextLength)) => refused(),
            (408 | 504, _) => ProviderError::Timeout,
            (429, _) => ProviderError::RateLimited { retry_after },
            (500.., _) => ProviderError::Failed { retry_after },
            // The operator's key, address or payment is at fault; the client cannot fix that.
            _ => ProviderError::FAILED,
        }
    }

    /// Reads the complaint in an error's body, from what arrives soon.
    async fn read_complaint(&self, answer: &mut UpstreamResponse) -> Option<RequestComplaint> {
        let mut gzip = GzipDecoder::for_headers(&answer.headers).ok()?;
        let mut body = BytesMut::new();
        let reading = async {
            while body.len() < limits::PROVIDER_ERROR_BYTES
                && let Some(Ok(chunk)) = poll_fn(|cx| answer.poll_chunk(cx)).await
            {
                let Some(gzip) = &mut gzip else {
                    body.extend_from_slice(&chunk);
                    continue;
                };
                for piece in chunk.chunks(limits::ZIPPED_PIECE_BYTES) {
                    let Ok(plain) = gzip.decode(piece) else { return };
                    body.extend_from_slice(&plain);
                    if body.len() >= limits::PROVIDER_ERROR_BYTES {
                        return;
                    }
                }
            }
        };
        let _ = tokio::time::timeout(limits::PROVIDER_ERROR_WAIT, reading).await;
        body.truncate(limits::PROVIDER_ERROR_BYTES);
        RequestComplaint::find(&body)
    }
}
