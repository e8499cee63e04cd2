//! The body of an HTTP/2 request.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http_body::{Body, Frame, SizeHint};

pub(super) struct H2RequestBody {
    stream: RecvStream,
    /// Remaining bytes, if the request states its length.
    left: Option<u64>,
    is_read: bool,
}

impl H2RequestBody {
    pub(super) fn new(stream: RecvStream, len: Option<u64>) -> Self {
        Self { stream, left: len, is_read: false }
    }
}

impl Body for H2RequestBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.is_read {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(bytes)) => {
                    // The bytes are consumed, so the visitor may send as many again.
                    let _ = self.stream.flow_control().release_capacity(bytes.len());
                    self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                // The visitor accepted an early response, and does not send the rest of the body.
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.is_read = true,
            }
        }
        match ready!(self.stream.poll_trailers(cx)) {
            Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
            Err(error) if error.reason() == Some(Reason::NO_ERROR) => Poll::Ready(None),
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
