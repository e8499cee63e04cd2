//! Bodies of requests that are proxied to an admin.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use edge_metrics as metrics;
use fairness::budget::{BudgetAccount, ByteGrant};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_types::BodyError;
use tokio::time::timeout;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::{answers::PlatformFailure, attempt::AdminAttempt};

/// The body of a request whose beginning has been read: most bodies are read whole.
pub(super) struct BufferedBody<B> {
    first: Bytes,
    /// The unread rest.
    rest: Option<B>,
}

/// The memory for the read part of a body, charged to its client's share and that of all bodies, as it arrives.
pub(super) struct BodyMemory {
    client: (BudgetAccount, Option<ByteGrant>),
    bodies: (BudgetAccount, Option<ByteGrant>),
}

impl BodyMemory {
    pub(super) fn new(client: BudgetAccount, bodies: BudgetAccount) -> Self {
        Self { client: (client, None), bodies: (bodies, None) }
    }

    async fn grow(&mut self, bytes: u64) -> Result<(), PlatformFailure> {
        if bytes == 0 {
            return Ok(());
        }
        for (account, held) in [&mut self.client, &mut self.bodies] {
            let Ok(more) = account.take(bytes, limits::BODY_PATIENCE).await else {
                metrics::exhausted();
                metrics::platform_refused("memory");
                return Err(PlatformFailure::Busy);
            };
            match held {
                Some(held) => held.merge(more),
                None => *held = Some(more),
            }
        }
        Ok(())
    }

    /// Returns the grant of the client's share, once the body no longer counts as being read.
    pub(super) fn into_client_grant(self) -> Option<ByteGrant> {
        self.client.1
    }
}

impl<B> BufferedBody<B>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    /// Creates a body that is not read beforehand: an empty or a large one.
    pub(super) fn unread(body: B) -> Self {
        let rest = (!body.is_end_stream()).then_some(body);
        Self { first: Bytes::new(), rest }
    }

    /// Returns whether [`Self::read`] would read any of `body`: not if it announces a large length.
    pub(super) fn should_read(body: &B) -> bool {
        let most = limits::PLATFORM_BODY_BYTES as u64;
        !body.is_end_stream() && body.size_hint().exact().is_none_or(|length| length <= most)
    }

    /// Reads `body`, up to [`limits::PLATFORM_BODY_BYTES`], within `memory`. A slow body is refused if it announced its
    /// length. Otherwise it may be an upload that is generated while it is sent: admin's rules decide.
    pub(super) async fn read(mut body: B, memory: &mut BodyMemory) -> Result<Self, PlatformFailure> {
        let mut first = BytesMut::new();
        let reading = async {
            while first.len() < limits::PLATFORM_BODY_BYTES {
                match body.frame().await {
                    Some(Ok(frame)) => {
                        let data = frame.data_ref().map_or(&[][..], |data| data);
                        memory.grow(data.len() as u64).await?;
                        first.extend_from_slice(data);
                    }
                    // Mostly a client that is disconnected, whom the error does not reach.
                    Some(Err(_)) => return Err(PlatformFailure::BrokenOff),
                    None => return Ok(true),
                }
            }
            Ok(body.is_end_stream())
        };
        let is_whole = match timeout(limits::PLATFORM_BODY, reading).await {
            Ok(read) => read?,
            Err(_) if body.size_hint().exact().is_some() => return Err(PlatformFailure::Late),
            Err(_) => false,
        };
        Ok(Self { first: first.freeze(), rest: (!is_whole).then_some(body) })
    }
}

impl<B: Body<Data = Bytes>> BufferedBody<B> {
    pub(super) fn rest_mut(&mut self) -> Option<&mut B> {
        self.rest.as_mut()
    }

    /// Makes it the body of a request that may be retried.
    pub(super) fn share(self) -> SharedBody<B> {
        SharedBody { first: self.first, is_whole: self.rest.is_none(), rest: Arc::new(Mutex::new(self.rest)) }
    }
}

/// The body of a request that may be retried, until an admin has taken its unread rest.
pub(super) struct SharedBody<B> {
    first: Bytes,
    is_whole: bool,
    /// The unread rest, until an attempt takes it.
    rest: Arc<Mutex<Option<B>>>,
}

impl<B: Body<Data = Bytes> + Unpin> SharedBody<B> {
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns whether an attempt has taken the unread rest.
    pub(super) fn has_left(&self) -> bool {
        !self.is_whole && lock(&self.rest).is_none()
    }

    /// Reads and discards the rest, unless an attempt has taken it.
    pub(super) async fn discard(&self) {
        let rest = lock(&self.rest).take();
        let Some(mut rest) = rest else { return };
        let reading = async {
            let mut read = 0;
            while let Ok(Some(Ok(frame))) = timeout(limits::REFUSED_BODY_PAUSE, rest.frame()).await {
                read += frame.data_ref().map_or(0, |data| data.len() as u64);
                if read > limits::REFUSED_BODY_BYTES {
                    return;
                }
            }
        };
        // A slow rest is cut off.
        let _ = timeout(limits::REFUSED_BODY_WAIT, reading).await;
    }

    /// Returns the body for `attempt`. Unless it is whole, nothing of it is sent before the admin wants it.
    pub(super) fn attempt(&self, attempt: &AdminAttempt) -> AttemptBody<B> {
        let wanted = (!self.is_whole).then(|| Box::pin(attempt.wants_body.clone().cancelled_owned()));
        AttemptBody { wanted, first: self.first.clone(), shared: self.rest.clone(), rest: None }
    }
}

fn lock<B>(rest: &Mutex<Option<B>>) -> MutexGuard<'_, Option<B>> {
    // No code panics while it holds the lock.
    rest.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct AttemptBody<B> {
    /// Waits until the admin wants the body; `None` once it does.
    wanted: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    first: Bytes,
    shared: Arc<Mutex<Option<B>>>,
    rest: Option<B>,
}

impl<B> Body for AttemptBody<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(wanted) = &mut self.wanted {
            ready!(wanted.as_mut().poll(cx));
            self.wanted = None;
        }
        if self.rest.is_none() {
            let rest = lock(&self.shared).take();
            self.rest = rest;
        }
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
        let is_over = |rest: Option<&B>| rest.is_none_or(Body::is_end_stream);
        self.first.is_empty() && is_over(self.rest.as_ref()) && is_over(lock(&self.shared).as_ref())
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.len() as u64;
        let rest = self.rest.as_ref().map(Body::size_hint).or_else(|| lock(&self.shared).as_ref().map(Body::size_hint));
        let Some(rest) = rest else { return SizeHint::with_exact(first) };
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(first));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(first));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use fairness::budget::{BudgetLimits, ByteBudget};
    use futures_util::{FutureExt as _, stream};
    use http_body_util::{Full, StreamBody};

    use super::{
        super::admins::{AdminPool, AdminUpstreams},
        *,
    };

    fn attempt() -> Arc<AdminAttempt> {
        AdminAttempt::new(
            AdminPool::new(AdminUpstreams::parse(&["10.0.0.1:1".to_owned()]).unwrap()).choose(&[]).unwrap(),
        )
    }

    type BodyFrames = Vec<Result<Frame<Bytes>, std::convert::Infallible>>;

    fn chunks(count: usize, len: usize) -> BodyFrames {
        (0..count).map(|_| Ok(Frame::data(Bytes::from(vec![b'x'; len])))).collect()
    }

    fn memory(bytes: u64) -> BodyMemory {
        let of = |total| ByteBudget::new(BudgetLimits { total, client: total, connection: total }).common_account();
        BodyMemory::new(of(u64::MAX), of(bytes))
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_of_a_body_is_held_and_waited_for_where_it_is_short() {
        let budget = ByteBudget::new(BudgetLimits { total: 1_000, client: 1_000, connection: 1_000 });
        let memory = || BodyMemory::new(budget.common_account(), budget.common_account());
        let body = |count| StreamBody::new(stream::iter(chunks(count, 100)));
        let mut first = memory();
        assert!(BufferedBody::read(body(4), &mut first).await.is_ok());
        assert_eq!(budget.used(), 800, "of the client's and of all bodies'");
        assert_eq!(BufferedBody::read(body(2), &mut memory()).await.err(), Some(PlatformFailure::Busy));
        assert_eq!(budget.used(), 800, "what is refused holds nothing");
        let held = first.into_client_grant();
        assert_eq!(budget.used(), 400);
        drop(held);
        assert!(BufferedBody::read(body(2), &mut memory()).await.is_ok());
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn a_body_is_the_same_whether_it_was_read_or_not() {
        for (count, len) in [(0, 0), (1, 10), (3, limits::PLATFORM_BODY_BYTES), (200, 1_000)] {
            let body = BufferedBody::read(StreamBody::new(stream::iter(chunks(count, len))), &mut memory(u64::MAX))
                .await
                .unwrap();
            assert!(body.first.len() <= limits::PLATFORM_BODY_BYTES + len);
            let (body, attempt) = (body.share(), attempt());
            attempt.wants_body.cancel();
            assert_eq!(body.attempt(&attempt).collect().await.unwrap().to_bytes().len(), count * len);
        }
    }

    #[tokio::test]
    async fn a_whole_body_is_there_for_every_attempt() {
        let whole =
            BufferedBody::read(Full::new(Bytes::from_static(b"small")), &mut memory(u64::MAX)).await.unwrap().share();
        for _ in 0..2 {
            let body = whole.attempt(&attempt());
            assert_eq!(body.size_hint().exact(), Some(5));
            assert_eq!(body.collect().await.unwrap().to_bytes(), "small");
        }
        assert!(whole.is_whole() && !whole.has_left());
    }

    #[tokio::test]
    async fn a_large_body_waits_until_it_is_wanted_and_leaves_once() {
        let large = Bytes::from(vec![b'x'; limits::PLATFORM_BODY_BYTES + 1]);
        let shared = BufferedBody::unread(Full::new(large.clone())).share();
        let (refuses, takes) = (attempt(), attempt());
        let mut body = shared.attempt(&refuses);
        assert!(body.frame().now_or_never().is_none() && !body.is_end_stream());
        assert_eq!(body.size_hint().exact(), Some(large.len() as u64));
        drop(body);
        assert!(!shared.has_left());
        let body = shared.attempt(&takes);
        takes.wants_body.cancel();
        assert_eq!(body.collect().await.unwrap().to_bytes(), large);
        assert!(shared.has_left());
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_not_a_slow_one() {
        let frames = [Ok(Frame::data(Bytes::from_static(b"{"))), Err(std::io::Error::other("reset"))];
        let read = BufferedBody::read(StreamBody::new(stream::iter(frames)), &mut memory(u64::MAX)).await;
        assert_eq!(read.err(), Some(PlatformFailure::BrokenOff));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_is_refused_if_it_said_its_length() {
        struct SlowBody(Option<u64>);
        impl Body for SlowBody {
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
        assert_eq!(BufferedBody::read(SlowBody(Some(10)), &mut memory(0)).await.err(), Some(PlatformFailure::Late));
        assert!(BufferedBody::read(SlowBody(None), &mut memory(0)).await.is_ok_and(|body| body.rest.is_some()));
        let large = SlowBody(Some(limits::PLATFORM_BODY_BYTES as u64 + 1));
        assert!(!BufferedBody::should_read(&large) && BufferedBody::should_read(&SlowBody(None)));
    }
}
