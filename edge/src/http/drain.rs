//! Reading what a client still sends although nobody asked for it.

use bytes::Bytes;
use http_body_util::BodyExt as _;

use crate::limits;

/// Reads the rest of `body` and throws it away, at most [`limits::UNWANTED_BODY_BYTES`]. Over HTTP/2 an answer before the
/// end of its request is followed by a reset, and some clients that read both concurrently lose the answer.
pub(crate) async fn drain<B>(body: &mut B)
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
