//! What an answer of the gateway carries.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::Full;

use super::stream::{Aborted, Stream};

/// The body of an answer.
pub struct Body(Kind);

enum Kind {
    Whole(Full<Bytes>),
    Stream(Stream),
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(Kind::Whole(Full::new(bytes)))
    }
}

impl From<Stream> for Body {
    fn from(stream: Stream) -> Self {
        Self(Kind::Stream(stream))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut self.0 {
            Kind::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Kind::Stream(stream) => {
                let next = stream.poll_bytes(cx);
                next.map(|next| next.map(|bytes| bytes.map(Frame::data).map_err(|aborted: Aborted| aborted.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(body) => body.is_end_stream(),
            Kind::Stream(stream) => stream.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(body) => body.size_hint(),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}
