//! The body of a request to a provider: sent once, and released piece by piece.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::BodyPieces;

/// A body to send, which can be retried if nothing of it was taken at the first attempt. Clones share it.
#[derive(Clone)]
pub enum UpstreamBody {
    /// A small body, which can be sent any number of times.
    Whole(Bytes),
    /// A large body. Once a connection begins to take it, only that connection holds it in memory.
    Pieces {
        /// The slices to send; `None` once a connection has taken them.
        pieces: Arc<Mutex<Option<VecDeque<Bytes>>>>,
        /// The length of all slices in bytes.
        len: usize,
        /// Whether it is kept to be sent again.
        is_kept: bool,
    },
}

/// A body that is being sent. It calls a function right before the request is sent: hyper polls for the first frame,
/// and then passes it to the kernel together with the request's head.
pub(crate) struct SendingBody {
    body: Option<UpstreamBody>,
    taken: VecDeque<Bytes>,
    left: usize,
    before_sending: Box<dyn Fn() + Send>,
}

impl From<BodyPieces> for UpstreamBody {
    fn from(body: BodyPieces) -> Self {
        let len = body.len();
        let mut pieces: VecDeque<Bytes> = body.into_inner().into();
        match pieces.pop_front() {
            None => Self::Whole(Bytes::new()),
            Some(whole) if pieces.is_empty() && len <= limits::SENT_PIECE_BYTES + limits::ADDED_BYTES => {
                Self::Whole(whole)
            }
            Some(first) => {
                pieces.push_front(first);
                Self::Pieces { pieces: Arc::new(Mutex::new(Some(pieces))), len, is_kept: false }
            }
        }
    }
}

impl UpstreamBody {
    /// Keeps the body after sending, so that it can be sent again.
    #[must_use]
    pub fn with_retention(mut self) -> Self {
        if let Self::Pieces { is_kept, .. } = &mut self {
            *is_kept = true;
        }
        self
    }

    /// Returns the length in bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Whole(body) => body.len(),
            Self::Pieces { len, .. } => *len,
        }
    }

    /// Returns whether the body can be sent (again).
    pub fn is_available(&self) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Pieces { pieces, .. } => pieces.lock().unwrap_or_else(PoisonError::into_inner).is_some(),
        }
    }

    fn take(self) -> VecDeque<Bytes> {
        match self {
            Self::Whole(body) => VecDeque::from([body]),
            Self::Pieces { pieces, is_kept, .. } => {
                let mut pieces = pieces.lock().unwrap_or_else(PoisonError::into_inner);
                let taken = if is_kept { pieces.clone() } else { pieces.take() };
                taken.unwrap_or_default()
            }
        }
    }
}

impl SendingBody {
    pub(super) fn new(body: UpstreamBody, before_sending: impl Fn() + Send + 'static) -> Self {
        let left = body.len();
        Self { body: Some(body), taken: VecDeque::new(), left, before_sending: Box::new(before_sending) }
    }

    fn next(&mut self) -> Option<Bytes> {
        match self.body.take() {
            None => {}
            Some(UpstreamBody::Whole(body)) => {
                (self.before_sending)();
                self.left = 0;
                return (!body.is_empty()).then_some(body);
            }
            Some(body) => {
                (self.before_sending)();
                self.taken = body.take();
            }
        }
        let first = self.taken.front_mut()?;
        let piece = if first.len() > limits::SENT_PIECE_BYTES {
            first.split_to(limits::SENT_PIECE_BYTES)
        } else {
            self.taken.pop_front()?
        };
        self.left = self.left.saturating_sub(piece.len());
        Some(piece)
    }
}

impl Body for SendingBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_none() && self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_large_body_is_sent_in_small_pieces_and_let_go_of() {
        let large = Bytes::from(vec![b'x'; 10 * limits::SENT_PIECE_BYTES + 1]);
        let sendable = UpstreamBody::from(BodyPieces::from(large.clone()));
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let mut body = SendingBody::new(sendable.clone(), move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        assert!(sendable.is_available() && count.load(Ordering::Relaxed) == 0 && !body.is_end_stream());
        let mut sent = Vec::new();
        while let Some(frame) = body.frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            assert!(piece.len() <= limits::SENT_PIECE_BYTES);
            assert!(!sendable.is_available(), "it is not sent twice");
            sent.extend_from_slice(&piece);
        }
        assert!(body.is_end_stream() && sent == large);
        assert_eq!(count.load(Ordering::Relaxed), 1);
        drop(body);
        assert!(large.is_unique(), "nobody holds it, though it could have been sent again");
        drop(sendable);
    }

    #[tokio::test]
    async fn a_large_body_that_is_kept_can_be_sent_again() {
        let large = Bytes::from(vec![b'x'; 10 * limits::SENT_PIECE_BYTES + 1]);
        let sendable = UpstreamBody::from(BodyPieces::from(large.clone())).with_retention();
        for _ in 0..2 {
            assert_eq!(SendingBody::new(sendable.clone(), || {}).collect().await.unwrap().to_bytes(), large);
            assert!(sendable.is_available());
        }
        drop(sendable);
        assert!(large.is_unique());
    }

    #[tokio::test]
    async fn a_small_body_is_one_piece_and_can_be_sent_again() {
        let sendable = UpstreamBody::from(BodyPieces::from(Bytes::from_static(b"{}")));
        for _ in 0..2 {
            let body = SendingBody::new(sendable.clone(), || {});
            assert_eq!(body.size_hint().exact(), Some(2));
            assert_eq!(body.collect().await.unwrap().to_bytes(), "{}");
            assert!(sendable.is_available());
        }
    }
}
