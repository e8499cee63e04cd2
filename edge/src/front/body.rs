//! What an answer of the edge carries: a site's bytes, a completion, or what admin sends.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;

use crate::{gateway, http::SiteBody};

/// The body of any answer. An enum and no box: this is on every request's way.
pub enum Body {
    /// A site's, or a page of ours.
    Site(SiteBody),
    /// Admin's.
    Handed(Incoming),
    /// The AI gateway's.
    Gateway(gateway::Body),
}

impl From<SiteBody> for Body {
    fn from(body: SiteBody) -> Self {
        Self::Site(body)
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Site(body) => Pin::new(body).poll_frame(cx),
            Self::Handed(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::Gateway(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Site(body) => body.is_end_stream(),
            Self::Handed(body) => body.is_end_stream(),
            Self::Gateway(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Site(body) => body.size_hint(),
            Self::Handed(body) => body.size_hint(),
            Self::Gateway(body) => body.size_hint(),
        }
    }
}
