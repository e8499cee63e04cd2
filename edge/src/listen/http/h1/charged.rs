//! The body of an answer over HTTP/1.1: what is handed to the connection is charged until the socket has taken it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use fairness::budget::{Exhausted, Grant};
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::super::Shared;
use crate::{
    front::Body,
    http::{BodyError, Chunk, charge},
    limits::{self, BLOCK_BYTES},
    metrics,
};

type Asking = Pin<Box<dyn Future<Output = Result<Grant, Exhausted>> + Send>>;

/// A body that takes nothing before there is a grant for it.
pub(in crate::listen::http) struct Charged {
    body: Body,
    shared: Arc<Shared>,
    /// The grant for the next bytes.
    grant: Option<Grant>,
    /// The wait for a grant.
    asking: Option<Asking>,
    /// Bytes that the body gave of itself, and that wait for theirs.
    given: Option<Bytes>,
}

impl Charged {
    /// A body that is charged to the connection; `grant` is for its first bytes.
    pub(in crate::listen::http) fn new(body: Body, shared: Arc<Shared>, grant: Option<Grant>) -> Self {
        Self { body, shared, grant, asking: None, given: None }
    }

    fn poll_grant(&mut self, cx: &mut Context<'_>, bytes: u64) -> Poll<Result<(), BodyError>> {
        if self.grant.is_some() {
            return Poll::Ready(Ok(()));
        }
        if self.asking.is_none() {
            if let Ok(grant) = self.shared.connection.account.try_take(bytes) {
                self.grant = Some(grant);
                return Poll::Ready(Ok(()));
            }
            let account = self.shared.connection.account.clone();
            self.asking = Some(Box::pin(async move { account.take(bytes, limits::FLIGHT_PATIENCE).await }));
        }
        let Some(asking) = &mut self.asking else { return Poll::Ready(Ok(())) };
        let granted = ready!(asking.as_mut().poll(cx));
        self.asking = None;
        match granted {
            Ok(grant) => {
                self.grant = Some(grant);
                Poll::Ready(Ok(()))
            }
            Err(exhausted) => {
                metrics::exhausted();
                Poll::Ready(Err(exhausted.into()))
            }
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let bytes = if self.body.is_pulled() {
            let next = usize::try_from(self.body.left()).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
            if next == 0 {
                return Poll::Ready(None);
            }
            if let Err(error) = ready!(self.poll_grant(cx, charge(next))) {
                return Poll::Ready(Some(Err(error)));
            }
            match ready!(self.body.poll_next(cx, BLOCK_BYTES)) {
                Some(Ok(bytes)) => bytes,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        } else {
            if self.given.is_none() {
                match ready!(self.body.poll_next(cx, BLOCK_BYTES)) {
                    Some(Ok(bytes)) => self.given = Some(bytes),
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => return Poll::Ready(None),
                }
            }
            let len = self.given.as_ref().map_or(0, Bytes::len);
            if let Err(error) = ready!(self.poll_grant(cx, len as u64)) {
                return Poll::Ready(Some(Err(error)));
            }
            self.given.take().unwrap_or_default()
        };
        Poll::Ready(Some(Ok(Chunk::new(bytes, self.grant.take(), None))))
    }
}

impl HttpBody for Charged {
    type Data = Chunk;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Chunk>, BodyError>>> {
        self.poll_chunk(cx).map(|next| next.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.given.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
