//! What an answer of the edge carries: a site's bytes, a completion, or what admin sends.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use fairness::budget::Account;
use http::StatusCode;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::{
    gateway,
    http::{BodyError, SiteBody},
    limits::BLOCK_BYTES,
    platform::HandedBody,
    traffic::Counted,
};

/// The body of any answer. An enum and no box: this is on every request's way.
pub enum Body {
    /// A page of ours, or a site's that needs no counting any more.
    Site(SiteBody),
    /// A site's, which is counted.
    Counted(Counted),
    /// Admin's.
    Handed(HandedBody),
    /// The AI gateway's.
    Gateway(gateway::Body),
}

impl Body {
    /// Whether it gives as many bytes as it is asked for, and its length is known. The others give what they were given.
    pub(crate) fn is_pulled(&self) -> bool {
        matches!(self, Self::Site(_) | Self::Counted(_))
    }

    /// Bytes that are still to come of a body that is pulled.
    pub(crate) fn left(&self) -> u64 {
        match self {
            Self::Site(body) => body.left(),
            Self::Counted(body) => body.left(),
            Self::Handed(_) | Self::Gateway(_) => 0,
        }
    }

    /// Bytes that are still to come, as far as that is known.
    pub(super) fn least_left(&self) -> u64 {
        HttpBody::size_hint(self).lower()
    }

    /// Whether it is sent at a pace.
    pub(crate) fn is_paced(&self) -> bool {
        match self {
            Self::Site(body) => body.is_paced(),
            Self::Counted(body) => body.is_paced(),
            Self::Handed(_) | Self::Gateway(_) => false,
        }
    }

    /// The bytes that its pace allows now, as many as there are without one.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        self.of_site().map_or(Poll::Ready(usize::MAX), |body| body.poll_room(cx))
    }

    /// The next bytes: of a body that is pulled, at least one and at most `most`.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Result<Bytes, BodyError>>> {
        match self {
            Self::Site(body) => return body.poll_next(cx, most),
            Self::Counted(body) => return body.poll_next(cx, most),
            Self::Handed(_) | Self::Gateway(_) => {}
        }
        loop {
            match ready!(Pin::new(&mut *self).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => {
                    // Trailers are passed on to nobody.
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
            }
        }
    }

    /// Lets bytes of a body that is read while it is sent be read ahead, charged to `account`.
    pub(crate) fn read_ahead(&mut self, account: &Account) {
        if let Some(body) = self.of_site() {
            body.read_ahead(account);
        }
    }

    /// Lets go of bytes that can be had again: for when nobody takes them for now.
    pub(crate) fn park(&mut self) {
        if let Some(body) = self.of_site() {
            body.park();
        }
    }

    /// A page of ours in its place, as long as nothing of it was sent.
    pub(super) fn replaced(self, status: StatusCode, page: SiteBody) -> Self {
        match self {
            Self::Counted(body) => Self::Counted(body.replaced(status, page)),
            _ => Self::Site(page),
        }
    }

    fn of_site(&mut self) -> Option<&mut SiteBody> {
        match self {
            Self::Site(body) => Some(body),
            Self::Counted(body) => Some(body.body_mut()),
            Self::Handed(_) | Self::Gateway(_) => None,
        }
    }
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
            Self::Counted(body) => body.poll_next(cx, BLOCK_BYTES).map(|next| next.map(|bytes| bytes.map(Frame::data))),
            Self::Handed(body) => Pin::new(body).poll_frame(cx),
            Self::Gateway(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Site(body) => body.is_end_stream(),
            Self::Counted(body) => body.left() == 0,
            Self::Handed(body) => body.is_end_stream(),
            Self::Gateway(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Site(body) => body.size_hint(),
            Self::Counted(body) => SizeHint::with_exact(body.left()),
            Self::Handed(body) => body.size_hint(),
            Self::Gateway(body) => body.size_hint(),
        }
    }
}
