//! What an answer carries: nothing, bytes from memory, or pieces that are read while they are sent.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use domain::DeploymentId;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use packs::Span;

use super::packs::{PackError, Packs};
use crate::limits::READ_BYTES;

/// The body of an answer to a site's visitor.
#[derive(Default)]
pub struct SiteBody(Content);

#[derive(Default)]
enum Content {
    #[default]
    Empty,
    Whole(Bytes),
    Pieces(Box<Pieces>),
}

/// A part of a body that is not sent from memory whole.
pub(crate) enum Piece {
    /// These bytes.
    Bytes(Bytes),
    /// This range of the pack's data.
    Span(Span),
}

/// One read at a time, and the next only when the last was taken: the visitor's pace is the store's pace.
struct Pieces {
    packs: Arc<dyn Packs>,
    id: DeploymentId,
    queue: VecDeque<Piece>,
    left: u64,
    reading: Option<BoxFuture<'static, Result<Bytes, PackError>>>,
}

impl SiteBody {
    /// No body.
    pub const fn empty() -> Self {
        Self(Content::Empty)
    }

    /// Pieces, those of the pack read in bounded steps.
    pub(crate) fn pieces(packs: Arc<dyn Packs>, id: DeploymentId, queue: VecDeque<Piece>) -> Self {
        let left = queue.iter().map(Piece::len).sum();
        Self(Content::Pieces(Box::new(Pieces { packs, id, queue, left, reading: None })))
    }
}

impl From<Bytes> for SiteBody {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self::empty() } else { Self(Content::Whole(bytes)) }
    }
}

impl Piece {
    /// Bytes it will be.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Span(span) => span.len,
        }
    }
}

impl Pieces {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, PackError>>> {
        loop {
            if let Some(reading) = &mut self.reading {
                let read = ready!(reading.as_mut().poll(cx));
                self.reading = None;
                return Poll::Ready(Some(self.take(read)));
            }
            match self.queue.pop_front() {
                None => return Poll::Ready(None),
                Some(Piece::Bytes(bytes)) => return Poll::Ready(Some(self.take(Ok(bytes)))),
                Some(Piece::Span(Span { len: 0, .. })) => {}
                Some(Piece::Span(span)) => {
                    let now = span.len.min(READ_BYTES);
                    self.queue.push_front(Piece::Span(Span { offset: span.offset + now, len: span.len - now }));
                    let (packs, id) = (self.packs.clone(), self.id.clone());
                    self.reading = Some(Box::pin(async move { packs.read(&id, span.offset, now).await }));
                }
            }
        }
    }

    fn take(&mut self, read: Result<Bytes, PackError>) -> Result<Bytes, PackError> {
        match &read {
            Ok(bytes) => self.left = self.left.saturating_sub(bytes.len() as u64),
            // Nothing more comes: the connection is cut, so that the visitor does not take the part for the whole.
            Err(_) => self.queue.clear(),
        }
        read
    }
}

impl Body for SiteBody {
    type Data = Bytes;
    type Error = PackError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, PackError>>> {
        match &mut self.0 {
            Content::Empty => Poll::Ready(None),
            Content::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Content::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Content::Pieces(pieces) => pieces.poll_next(cx).map(|next| next.map(|read| read.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Empty => true,
            Content::Whole(_) => false,
            Content::Pieces(pieces) => pieces.left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match &self.0 {
            Content::Empty => 0,
            Content::Whole(bytes) => bytes.len() as u64,
            Content::Pieces(pieces) => pieces.left,
        })
    }
}
