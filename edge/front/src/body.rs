//! The body of any response of the edge: a site's bytes, a completion, or admin's response.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use fairness::budget::BudgetAccount;
use http::StatusCode;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_types::{BodyError, SiteBody, TakenBytes};
use limits::BLOCK_BYTES;
use platform::AdminBody;
use traffic::CountedBody;

/// The body of any response. An enum rather than a box, because every request has one.
pub enum ResponseBody {
    /// One of our own pages, or a site's response that needs no more counting.
    Site(SiteBody),
    /// A site's response whose traffic is counted.
    Counted(CountedBody),
    /// A response of the platform, handed on as it arrives.
    Handed(AdminBody),
    /// A response of the AI gateway.
    Gateway(gateway::GatewayBody),
}

impl ResponseBody {
    /// Returns whether the length is known and the caller chooses how many bytes to read. Others return what arrived.
    pub fn is_pulled(&self) -> bool {
        matches!(self, Self::Site(_) | Self::Counted(_))
    }

    /// Returns the number of bytes that are still to be sent; 0 for a body that is not pulled.
    pub fn left(&self) -> u64 {
        match self {
            Self::Site(body) => body.left(),
            Self::Counted(body) => body.left(),
            Self::Handed(_) | Self::Gateway(_) => 0,
        }
    }

    pub(super) fn least_left(&self) -> u64 {
        HttpBody::size_hint(self).lower()
    }

    /// Returns whether the body is sent at the pace of an account over its bandwidth, as only bodies of sites are.
    pub fn is_paced(&self) -> bool {
        match self {
            Self::Site(body) => body.is_paced(),
            Self::Counted(body) => body.is_paced(),
            Self::Handed(_) | Self::Gateway(_) => false,
        }
    }

    /// Polls for the number of bytes that the pace allows now; unlimited without a pace.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        self.site_body_mut().map_or(Poll::Ready(usize::MAX), |body| body.poll_room(cx))
    }

    /// Polls for the next bytes: of a pulled body, at least one and at most `most`. They count once their
    /// [`counter`](Self::counter) has them.
    pub fn poll_next(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Result<Bytes, BodyError>>> {
        match self {
            Self::Site(body) => return body.poll_next(cx, most),
            Self::Counted(body) => return body.body_mut().poll_next(cx, most),
            Self::Handed(_) | Self::Gateway(_) => {}
        }
        loop {
            match ready!(Pin::new(&mut *self).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => {
                    // Trailers are dropped.
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
            }
        }
    }

    /// Returns who counts the bytes that the connection takes, if they count.
    pub fn counter(&self) -> Option<Arc<dyn TakenBytes>> {
        match self {
            Self::Counted(body) => Some(body.counter()),
            Self::Site(_) | Self::Handed(_) | Self::Gateway(_) => None,
        }
    }

    /// Allows a streamed body to read ahead, charged to `account`.
    pub fn read_ahead(&mut self, account: &BudgetAccount) {
        if let Some(body) = self.site_body_mut() {
            body.read_ahead(account);
        }
    }

    /// Releases bytes that can be read again, while the client does not read.
    pub fn park(&mut self) {
        if let Some(body) = self.site_body_mut() {
            body.park();
        }
    }

    /// Replaces the body with a page of ours, before any of it was sent.
    pub(super) fn replaced_by_page(self, status: StatusCode, page: SiteBody) -> Self {
        match self {
            Self::Counted(body) => Self::Counted(body.replace_with(status, page)),
            _ => Self::Site(page),
        }
    }

    fn site_body_mut(&mut self) -> Option<&mut SiteBody> {
        match self {
            Self::Site(body) => Some(body),
            Self::Counted(body) => Some(body.body_mut()),
            Self::Handed(_) | Self::Gateway(_) => None,
        }
    }
}

impl From<SiteBody> for ResponseBody {
    fn from(body: SiteBody) -> Self {
        Self::Site(body)
    }
}

impl HttpBody for ResponseBody {
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
