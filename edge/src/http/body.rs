//! The body of an answer to a site's visitor: nothing, bytes from memory, or a body that is read while it is sent.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};

/// Why a body ended before its end.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer to a site's visitor. Nearly all come from memory: those are neither boxed nor dispatched.
#[derive(Default)]
pub struct SiteBody(Content);

#[derive(Default)]
enum Content {
    #[default]
    Empty,
    Whole(Bytes),
    Streamed(UnsyncBoxBody<Bytes, BodyError>),
}

impl SiteBody {
    /// An empty body.
    pub const fn empty() -> Self {
        Self(Content::Empty)
    }

    /// A body that is made while it is sent.
    pub fn streamed<B>(body: B) -> Self
    where
        B: Body<Data = Bytes, Error: Into<BodyError>> + Send + 'static,
    {
        Self(Content::Streamed(body.map_err(Into::into).boxed_unsync()))
    }
}

impl From<Bytes> for SiteBody {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self::empty() } else { Self(Content::Whole(bytes)) }
    }
}

impl Body for SiteBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Content::Empty => Poll::Ready(None),
            Content::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Content::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Content::Streamed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Empty => true,
            Content::Whole(_) => false,
            Content::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Empty => SizeHint::with_exact(0),
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Streamed(body) => body.size_hint(),
        }
    }
}
