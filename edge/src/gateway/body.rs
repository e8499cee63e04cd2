//! The body of the gateway's answers.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::Full;

use super::stream::{StreamAbortedError, StreamBody};

/// The body of one of the gateway's answers: a whole one, or a stream of server-sent events.
pub struct Body(Kind);

enum Kind {
    Whole(Full<Bytes>),
    Stream(StreamBody),
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(Kind::Whole(Full::new(bytes)))
    }
}

impl From<StreamBody> for Body {
    fn from(stream: StreamBody) -> Self {
        Self(Kind::Stream(stream))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut self.0 {
            Kind::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Kind::Stream(stream) => stream
                .poll_bytes(cx)
                .map(|next| next.map(|bytes| bytes.map(Frame::data).map_err(|error: StreamAbortedError| error.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(body) => body.is_end_stream(),
            Kind::Stream(stream) => stream.is_ended(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(body) => body.size_hint(),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}
