//! Reads the rest of unsolicited request bodies.

use bytes::Bytes;
use http_body_util::BodyExt as _;

/// Reads and discards the rest of `body`, at most [`limits::UNWANTED_BODY_BYTES`]. Over HTTP/2 a response before the
/// end of its request is followed by a reset, and some clients that read both concurrently lose the response.
pub async fn drain<B>(body: &mut B)
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > limits::UNWANTED_BODY_BYTES {
            return;
        }
    }
}
