//! Bodies on the way between a client and an admin.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use fairness::{Client, Turn, budget::Grant};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

use super::answers::Failure;
use crate::{http::BodyError, limits};

/// The body of a request of which the beginning has been read: most bodies are read whole.
pub(super) struct BegunBody<B> {
    first: Bytes,
    /// What has not been read.
    rest: Option<B>,
}

impl<B> BegunBody<B>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    /// A body of which nothing is read before it is handed on: one that has none, or a large one.
    pub(super) fn unread(body: B) -> Self {
        let rest = (!body.is_end_stream()).then_some(body);
        Self { first: Bytes::new(), rest }
    }

    /// Whether [`Self::read`] would read anything of `body`. A body that says that it is large is not waited for.
    pub(super) fn is_to_be_read(body: &B) -> bool {
        let most = limits::PLATFORM_BODY_BYTES as u64;
        !body.is_end_stream() && body.size_hint().exact().is_none_or(|length| length <= most)
    }

    /// Bytes that [`Self::read`] holds of `body` at most.
    pub(super) fn most_read(body: &B) -> u64 {
        let most = limits::PLATFORM_BODY_BYTES as u64;
        body.size_hint().exact().map_or(most, |length| length.min(most))
    }

    /// Reads `body`, up to [`limits::PLATFORM_BODY_BYTES`]. What comes too slowly is refused if it said its length; if it
    /// did not, it may be an upload that is made while it is sent, and admin's own rules for those decide.
    pub(super) async fn read(mut body: B) -> Result<Self, Failure> {
        let mut first = BytesMut::new();
        let reading = async {
            while first.len() < limits::PLATFORM_BODY_BYTES {
                match body.frame().await {
                    Some(Ok(frame)) => first.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
                    // Nobody is there to be told.
                    Some(Err(_)) => return Err(Failure::Late),
                    None => return Ok(true),
                }
            }
            Ok(body.is_end_stream())
        };
        let is_whole = match timeout(limits::PLATFORM_BODY, reading).await {
            Ok(read) => read?,
            Err(_) if body.size_hint().exact().is_some() => return Err(Failure::Late),
            Err(_) => false,
        };
        Ok(Self { first: first.freeze(), rest: (!is_whole).then_some(body) })
    }
}

impl<B> Body for BegunBody<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.first)))));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(rest).poll_frame(cx));
        if frame.is_none() {
            self.rest = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.len() as u64;
        let Some(rest) = self.rest.as_ref().map(Body::size_hint) else { return SizeHint::with_exact(first) };
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(first));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(first));
        }
        hint
    }
}

/// The body of admin's answer. With it ends the request, and what the request held.
pub struct HandedBody {
    answer: Incoming,
    _held: Arc<Held>,
}

/// What a request for the platform holds while it is in flight.
pub(super) struct Held {
    pub(super) _turn: Turn<Client>,
    /// Its turn among the streams of events, if it is one.
    pub(super) _event_stream: Option<Turn<Client>>,
    /// Its place on its connection.
    pub(super) _place: Option<OwnedSemaphorePermit>,
    /// The memory of the way to admin.
    pub(super) _grant: Grant,
}

impl HandedBody {
    pub(super) fn new(answer: Incoming, held: Arc<Held>) -> Self {
        Self { answer, _held: held }
    }
}

impl Body for HandedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.answer).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.answer.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::{Full, StreamBody};

    use super::*;

    type Frames = Vec<Result<Frame<Bytes>, std::convert::Infallible>>;

    fn chunks(count: usize, len: usize) -> Frames {
        (0..count).map(|_| Ok(Frame::data(Bytes::from(vec![b'x'; len])))).collect()
    }

    #[tokio::test]
    async fn a_body_is_the_same_whether_it_was_read_or_not() {
        for (count, len) in [(0, 0), (1, 10), (3, limits::PLATFORM_BODY_BYTES), (200, 1_000)] {
            let body = BegunBody::read(StreamBody::new(stream::iter(chunks(count, len)))).await.unwrap();
            assert!(body.first.len() <= limits::PLATFORM_BODY_BYTES + len);
            assert_eq!(body.collect().await.unwrap().to_bytes().len(), count * len);
        }
        let whole = BegunBody::read(Full::new(Bytes::from_static(b"small"))).await.unwrap();
        assert!(whole.rest.is_none() && whole.size_hint().exact() == Some(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_is_refused_if_it_said_its_length() {
        struct Slow(Option<u64>);
        impl Body for Slow {
            type Data = Bytes;
            type Error = std::convert::Infallible;
            fn poll_frame(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
                Poll::Pending
            }
            fn size_hint(&self) -> SizeHint {
                self.0.map_or_else(SizeHint::new, SizeHint::with_exact)
            }
        }
        assert_eq!(BegunBody::read(Slow(Some(10))).await.err(), Some(Failure::Late));
        assert!(BegunBody::read(Slow(None)).await.is_ok_and(|body| body.rest.is_some()));
        let large = Slow(Some(limits::PLATFORM_BODY_BYTES as u64 + 1));
        assert!(!BegunBody::is_to_be_read(&large) && BegunBody::is_to_be_read(&Slow(None)));
        let most = [Slow(Some(10)), large, Slow(None)].map(|body| BegunBody::most_read(&body));
        assert_eq!(most, [10, limits::PLATFORM_BODY_BYTES as u64, limits::PLATFORM_BODY_BYTES as u64]);
    }
}
