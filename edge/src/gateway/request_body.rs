//! Reading the bodies of requests, within bounds.

use bytes::{Bytes, BytesMut};
use fairness::budget::{Account, Grant};
use http_body_util::BodyExt as _;

use super::error::ApiError;
use crate::{limits, metrics};

/// A body that was read, with the right to hold it.
pub(super) struct ReadBody {
    pub(super) bytes: Bytes,
    _grant: Grant,
}

/// Reads a whole body, within [`limits::COMPLETION_BODY`] and up to [`limits::COMPLETION_BYTES`]. What it may take is drawn at
/// `account` before any of it is read: whoever held a part and waited for more would keep it from the others. The size is
/// counted while it is read: a header may give a wrong one.
pub(super) async fn read<B>(body: &mut B, account: &Account) -> Result<ReadBody, ApiError>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let most = limits::COMPLETION_BYTES as u64;
    let bytes = body.size_hint().exact().unwrap_or(most).min(most);
    let Ok(grant) = account.take(bytes, limits::BODY_PATIENCE).await else {
        metrics::exhausted();
        return Err(ApiError::no_memory());
    };
    let reading = tokio::time::timeout(limits::COMPLETION_BODY, read_counted(body));
    let bytes = reading.await.unwrap_or_else(|_| Err(ApiError::body_timed_out()))?;
    Ok(ReadBody { bytes, _grant: grant })
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
    let announced = body.size_hint().exact().filter(|bytes| *bytes <= limits::UNWANTED_ANNOUNCED_BYTES);
    let most = announced.unwrap_or(limits::UNWANTED_BODY_BYTES as u64);
    let reading = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len) as u64;
            if read > most {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(limits::COMPLETION_BODY, reading).await;
}

#[cfg(test)]
mod tests {
    use fairness::budget::{Budget, Limits};
    use futures_util::{StreamExt as _, stream};
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};

    use super::*;

    const BYTES: u64 = limits::COMPLETION_BYTES as u64;

    fn budget(bodies: u64) -> Budget {
        let bytes = bodies * BYTES;
        Budget::new(Limits { total: bytes, client: bytes, connection: bytes })
    }

    /// A body of which a piece comes, and no more.
    fn held_back() -> impl http_body::Body<Data = Bytes> + Unpin {
        let piece = Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(b"{")));
        StreamBody::new(stream::iter([piece]).chain(stream::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_read_is_charged_before_it_comes_and_given_back() {
        let budget = budget(2);
        let account = budget.account(None);
        let read = super::read(&mut Full::new(Bytes::from_static(b"{}")), &account).await.unwrap();
        assert_eq!((&read.bytes[..], budget.used()), (&b"{}"[..], 2));
        drop(read);

        let mut held = [held_back(), held_back()];
        let [first, second] = &mut held;
        let reading = async { tokio::join!(super::read(first, &account), super::read(second, &account)) };
        let refused = async {
            tokio::task::yield_now().await;
            assert_eq!(budget.used(), 2 * BYTES);
            super::read(&mut Full::new(Bytes::from_static(b"{}")), &account).await.err().unwrap()
        };
        let (held, refused) = tokio::join!(reading, refused);
        let response = refused.into_response();
        assert_eq!(response.status(), http::StatusCode::SERVICE_UNAVAILABLE);
        assert!(response.headers().contains_key(http::header::RETRY_AFTER));
        assert!(held.0.is_err() && held.1.is_err(), "they did not arrive in time");
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_charged_as_the_largest() {
        let budget = budget(1);
        let mut body = Full::new(Bytes::from(vec![b' '; limits::COMPLETION_BYTES + 1]));
        let error = super::read(&mut body, &budget.account(None)).await.err().unwrap();
        assert_eq!((error.status(), budget.used()), (http::StatusCode::PAYLOAD_TOO_LARGE, 0));
    }
}
