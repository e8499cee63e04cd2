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
    resume::Pieces,
    stream::{StreamAbortedError, StreamBody},
    under_way::Held,
};

/// A response body: whole, or a stream of server-sent events.
pub struct Body {
    kind: Kind,
    _held: Option<Held>,
}

enum Kind {
    Whole(Full<Bytes>),
    Stream(StreamBody),
    /// An answer kept for clients that reconnect, and its remaining bytes, if known.
    Kept(Pieces, Option<u64>),
}

/// Bytes with a value that lives until the last of them is dropped.
struct Holding<H> {
    bytes: Bytes,
    _held: H,
}

impl<H> AsRef<[u8]> for Holding<H> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Body {
    /// Creates a whole body that holds a value, such as its turn, until its last byte has been handed over. The body
    /// itself is dropped when the bytes are only queued.
    pub(super) fn whole<H: Send + 'static>(bytes: Bytes, held: H) -> Self {
        Bytes::from_owner(Holding { bytes, _held: held }).into()
    }

    pub(super) fn kept(pieces: Pieces, length: Option<u64>) -> Self {
        Kind::Kept(pieces, length).into()
    }

    /// Keeps a completion counted as pending until the body is dropped.
    pub(super) fn holding(self, held: Held) -> Self {
        Self { _held: Some(held), ..self }
    }
}

impl From<Kind> for Body {
    fn from(kind: Kind) -> Self {
        Self { kind, _held: None }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Kind::Whole(Full::new(bytes)).into()
    }
}

impl From<StreamBody> for Body {
    fn from(stream: StreamBody) -> Self {
        Kind::Stream(stream).into()
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut self.kind {
            Kind::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Kind::Stream(stream) => stream
                .poll_bytes(cx)
                .map(|next| next.map(|bytes| bytes.map(Frame::data).map_err(|error: StreamAbortedError| error.into()))),
            Kind::Kept(pieces, left) => pieces.poll_next_unpin(cx).map(|next| {
                if let (Some(Ok(bytes)), Some(left)) = (&next, left) {
                    *left = left.saturating_sub(bytes.len() as u64);
                }
                next.map(|bytes| bytes.map(Frame::data).map_err(|error: StreamAbortedError| error.into()))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(body) => body.is_end_stream(),
            Kind::Stream(stream) => stream.is_ended(),
            Kind::Kept(_, left) => *left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(body) => body.size_hint(),
            Kind::Kept(_, Some(left)) => SizeHint::with_exact(*left),
            Kind::Stream(_) | Kind::Kept(_, None) => SizeHint::default(),
        }
    }
}
