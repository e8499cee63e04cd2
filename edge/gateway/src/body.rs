//! The body of the gateway's responses.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::Full;

use super::{
    resume::AnswerStream,
    stream::{StreamAbortedError, StreamBody},
    under_way::PendingGuard,
};

/// A response body: whole, or a stream of server-sent events.
pub struct GatewayBody {
    kind: BodyKind,
    _held: Option<PendingGuard>,
}

enum BodyKind {
    Whole(Full<Bytes>),
    Stream(StreamBody),
    /// An answer kept for clients that reconnect, and its remaining bytes, if known.
    Kept(AnswerStream, Option<u64>),
}

/// Bytes with a value that lives until the last of them is dropped.
struct BytesWithGuard<H> {
    bytes: Bytes,
    _held: H,
}

impl<H> AsRef<[u8]> for BytesWithGuard<H> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl GatewayBody {
    /// Creates a whole body that holds a value, such as its turn, until its last byte has been handed over. The body
    /// itself is dropped when the bytes are only queued.
    pub(super) fn whole<H: Send + 'static>(bytes: Bytes, held: H) -> Self {
        Bytes::from_owner(BytesWithGuard { bytes, _held: held }).into()
    }

    pub(super) fn kept(pieces: AnswerStream, length: Option<u64>) -> Self {
        BodyKind::Kept(pieces, length).into()
    }

    /// Keeps a completion counted as pending until the body is dropped.
    pub(super) fn holding(self, held: PendingGuard) -> Self {
        Self { _held: Some(held), ..self }
    }
}

impl From<BodyKind> for GatewayBody {
    fn from(kind: BodyKind) -> Self {
        Self { kind, _held: None }
    }
}

impl From<Bytes> for GatewayBody {
    fn from(bytes: Bytes) -> Self {
        BodyKind::Whole(Full::new(bytes)).into()
    }
}

impl From<StreamBody> for GatewayBody {
    fn from(stream: StreamBody) -> Self {
        BodyKind::Stream(stream).into()
    }
}

impl HttpBody for GatewayBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut self.kind {
            BodyKind::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            BodyKind::Stream(stream) => stream
                .poll_bytes(cx)
                .map(|next| next.map(|bytes| bytes.map(Frame::data).map_err(|error: StreamAbortedError| error.into()))),
            BodyKind::Kept(pieces, left) => pieces.poll_next_unpin(cx).map(|next| {
                if let (Some(Ok(bytes)), Some(left)) = (&next, left) {
                    *left = left.saturating_sub(bytes.len() as u64);
                }
                next.map(|bytes| bytes.map(Frame::data).map_err(|error: StreamAbortedError| error.into()))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Whole(body) => body.is_end_stream(),
            BodyKind::Stream(stream) => stream.is_ended(),
            BodyKind::Kept(_, left) => *left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Whole(body) => body.size_hint(),
            BodyKind::Kept(_, Some(left)) => SizeHint::with_exact(*left),
            BodyKind::Stream(_) | BodyKind::Kept(_, None) => SizeHint::default(),
        }
    }
}
