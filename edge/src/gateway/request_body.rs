//! Reading the bodies of requests, within bounds.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;

use super::error::ApiError;
use crate::limits;

/// Reads a whole body, within [`limits::COMPLETION_BODY`] and up to [`limits::COMPLETION_BYTES`]. The size is counted
/// while it is read: a header may give a wrong one.
pub(super) async fn read<B>(body: &mut B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let reading = tokio::time::timeout(limits::COMPLETION_BODY, read_counted(body));
    reading.await.unwrap_or_else(|_| Err(ApiError::body_timed_out()))
}

async fn read_counted<B>(body: &mut B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    // A body that comes in one piece is not copied.
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err(ApiError::body_cut_off()) };
        let Ok(piece) = frame.into_data() else { continue };
        if first.len() + all.len() + piece.len() > limits::COMPLETION_BYTES {
            return Err(ApiError::body_too_large());
        }
        match (first.is_empty(), all.is_empty()) {
            (true, true) => first = piece,
            (false, _) => {
                all.extend_from_slice(&std::mem::take(&mut first));
                all.extend_from_slice(&piece);
            }
            (true, false) => all.extend_from_slice(&piece),
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// Reads and drops what a refused client still sends, within bounds: a client that is answered while it sends may lose
/// the answer.
pub(super) async fn discard<B>(body: &mut B)
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let reading = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > limits::UNWANTED_BODY_BYTES {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(limits::COMPLETION_BODY, reading).await;
}
