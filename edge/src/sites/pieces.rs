//! A body in pieces, those of a pack read while they are sent.

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

/// A part of a body that is not sent from memory whole.
pub(crate) enum Piece {
    /// These bytes.
    Bytes(Bytes),
    /// This range of the pack's data.
    Span(Span),
}

/// One read at a time, and the next only when the last was taken: the visitor's pace is the store's pace.
pub(crate) struct Pieces {
    packs: Arc<dyn Packs>,
    id: DeploymentId,
    queue: VecDeque<Piece>,
    left: u64,
    reading: Option<BoxFuture<'static, Result<Bytes, PackError>>>,
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
    /// A body of the pieces in `queue`, those of the pack `id` read in steps of [`READ_BYTES`].
    pub(crate) fn new(packs: Arc<dyn Packs>, id: DeploymentId, queue: VecDeque<Piece>) -> Self {
        let left = queue.iter().map(Piece::len).sum();
        Self { packs, id, queue, left, reading: None }
    }

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

impl Body for Pieces {
    type Data = Bytes;
    type Error = PackError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, PackError>>> {
        self.poll_next(cx).map(|next| next.map(|read| read.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
