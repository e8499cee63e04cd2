//! The body of a request to a provider.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

/// A body that calls a function once, before any byte of its request is sent. hyper asks for the body, and then gives it to the kernel
/// together with the request's head: nothing is waited for in between.
pub(super) struct AnnouncedBody {
    body: Full<Bytes>,
    announce: Option<Box<dyn FnOnce() + Send>>,
}

impl AnnouncedBody {
    pub(super) fn new(body: Bytes, announce: impl FnOnce() + Send + 'static) -> Self {
        Self { body: Full::new(body), announce: Some(Box::new(announce)) }
    }
}

impl Body for AnnouncedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if let Some(announce) = self.announce.take() {
            announce();
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
