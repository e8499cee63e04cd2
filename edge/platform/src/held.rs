//! The resources that a platform request holds, and how they are revoked from clients that hold up others.
//!
//! A turn is released when admin's response has ended. Until then a client may stall it: by sending its body slowly, or
//! by not reading the response. When turns run short, [`ResourceHolders`] abort such a request of the client with the most.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use fairness::{Client, TurnPermit, budget::ByteGrant};
use http_body::{Body, Frame, SizeHint};
use http_types::BodyError;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    answers::PlatformFailure,
    body::{BodyMemory, BufferedBody},
};

pub(super) struct HeldResources {
    pub(super) holder: ResourceHolder,
    pub(super) _turn: TurnPermit<Client>,
    pub(super) _event_stream: Option<TurnPermit<Client>>,
    pub(super) _place: Option<OwnedSemaphorePermit>,
    /// The memory of the proxy to admin, until the response takes it over.
    pub(super) grant: Mutex<Option<ByteGrant>>,
}

impl HeldResources {
    pub(super) fn take_grant(&self) -> Option<ByteGrant> {
        self.grant.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) async fn revoked(&self) {
        self.holder.revoked().await;
    }

    /// Marks the request as waiting for its client to read or send, until the returned value is dropped.
    pub(super) fn waits_for_client(&self) -> ClientWait {
        ClientWait::new(self.holder.state.clone())
    }
}

/// The requests that hold a turn, or memory for a body that is being read.
#[derive(Clone, Default)]
pub(super) struct ResourceHolders(Arc<Mutex<HolderTable>>);

#[derive(Default)]
struct HolderTable {
    next: u64,
    holders: HashMap<u64, Arc<HolderState>>,
}

pub(super) struct ResourceHolder {
    holders: ResourceHolders,
    number: u64,
    pub(super) state: Arc<HolderState>,
}

impl ResourceHolder {
    pub(super) async fn revoked(&self) {
        self.state.taken_back.cancelled().await;
    }
}

pub(super) struct HolderState {
    client: Client,
    taken_back: CancellationToken,
    begun: Instant,
    /// When the request started to wait for its client, in milliseconds after `begun` plus one; 0 if it does not.
    waits_since: AtomicU64,
}

pub(super) struct ClientWait(Arc<HolderState>);

impl ResourceHolders {
    pub(super) fn add(&self, client: Client) -> ResourceHolder {
        let (taken_back, begun, waits_since) = (CancellationToken::new(), Instant::now(), AtomicU64::new(0));
        let state = Arc::new(HolderState { client, taken_back, begun, waits_since });
        let mut known = self.known();
        let number = known.next;
        known.next += 1;
        known.holders.insert(number, state.clone());
        ResourceHolder { holders: self.clone(), number, state }
    }

    /// Revokes the turn of the request that has waited longest for its client, among those of the client with the most
    /// such requests. Returns false if there is none: a client has [`limits::CLIENT_STALL_GRACE`] to make progress.
    pub(super) fn revoke_one(&self) -> bool {
        let now = Instant::now();
        let known = self.known();
        let waiting = |state: &&Arc<HolderState>| {
            state.waited_for(now).is_some_and(|waited| waited >= limits::CLIENT_STALL_GRACE)
        };
        let mut of_clients: HashMap<Client, usize> = HashMap::new();
        for state in known.holders.values().filter(waiting) {
            *of_clients.entry(state.client.widest()).or_default() += 1;
        }
        let Some((greediest, _)) = of_clients.into_iter().max_by_key(|(_, count)| *count) else { return false };
        let its = known.holders.values().filter(waiting).filter(|state| state.client.widest() == greediest);
        let longest = its.max_by_key(|state| state.waited_for(now));
        longest.inspect(|state| state.taken_back.cancel()).is_some()
    }

    fn known(&self) -> MutexGuard<'_, HolderTable> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ResourceHolder {
    fn drop(&mut self) {
        self.holders.known().holders.remove(&self.number);
    }
}

impl HolderState {
    /// Returns how long the request has waited for its client; `None` if it does not wait, or is revoked already.
    fn waited_for(&self, now: Instant) -> Option<std::time::Duration> {
        let since = self.waits_since.load(Ordering::Relaxed).checked_sub(1)?;
        let since = self.begun + std::time::Duration::from_millis(since);
        (!self.taken_back.is_cancelled()).then(|| now.saturating_duration_since(since))
    }
}

impl ClientWait {
    fn new(state: Arc<HolderState>) -> Self {
        let since = u64::try_from(state.begun.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1;
        state.waits_since.store(since, Ordering::Relaxed);
        Self(state)
    }
}

impl Drop for ClientWait {
    fn drop(&mut self) {
        self.0.waits_since.store(0, Ordering::Relaxed);
    }
}

/// A request's body that tracks whether its client is waited for. An occasional byte does not count as progress.
pub(super) struct WatchedBody<B> {
    body: B,
    state: Arc<HolderState>,
    waits: Option<ClientWait>,
    come: usize,
}

impl<B> WatchedBody<B> {
    /// Reads the beginning of the body. If the rest is late, the client is not waited for until reading resumes.
    pub(super) async fn read(self, memory: &mut BodyMemory) -> Result<BufferedBody<Self>, PlatformFailure>
    where
        B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
    {
        let mut begun = BufferedBody::read(self, memory).await?;
        if let Some(rest) = begun.rest_mut() {
            rest.waits = None;
        }
        Ok(begun)
    }

    pub(super) fn new(body: B, holder: &ResourceHolder) -> Self {
        Self { body, state: holder.state.clone(), waits: None, come: 0 }
    }
}

impl<B> Body for WatchedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        match &frame {
            Poll::Pending if this.waits.is_none() => {
                this.come = 0;
                this.waits = Some(ClientWait::new(this.state.clone()));
            }
            Poll::Pending => {}
            Poll::Ready(Some(Ok(frame))) => {
                this.come += frame.data_ref().map_or(0, Bytes::len);
                if this.come >= limits::HOLD_UP_BYTES {
                    this.waits = None;
                }
            }
            Poll::Ready(_) => this.waits = None,
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, time::Duration};

    use fairness::budget::{BudgetLimits, ByteBudget};

    use super::*;

    fn client(last: u8) -> Client {
        Client::from(IpAddr::from([192, 0, 2, last]))
    }

    struct PendingBody;

    impl Body for PendingBody {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_read_no_longer_is_not_waited_for() {
        let holders = ResourceHolders::default();
        let holder = holders.add(client(1));
        // Its length is unknown, so admin decides about it, once it has its turn.
        let account = || ByteBudget::new(BudgetLimits { total: 1, client: 1, connection: 1 }).common_account();
        let mut memory = BodyMemory::new(account(), account());
        let mut body = WatchedBody::new(PendingBody, &holder).read(&mut memory).await.unwrap();
        tokio::time::advance(limits::CLIENT_STALL_GRACE).await;
        assert!(!holders.revoke_one(), "it waits for its turn, not for its client");
        let (rest, waker) = (body.rest_mut().unwrap(), std::task::Waker::noop());
        assert!(matches!(Pin::new(rest).poll_frame(&mut Context::from_waker(waker)), Poll::Pending));
        tokio::time::advance(limits::CLIENT_STALL_GRACE).await;
        assert!(holders.revoke_one(), "now it does");
    }

    #[tokio::test(start_paused = true)]
    async fn turns_are_taken_back_from_the_greediest_that_lets_the_others_wait() {
        let holders = ResourceHolders::default();
        let add = |last| holders.add(client(last));
        let (modest, greedy, busy) = (add(1), [add(2), add(2), add(2)], [add(3), add(3), add(3), add(3)]);
        let waits = |holder: &ResourceHolder| ClientWait::new(holder.state.clone());
        let _waiting = [waits(&modest), waits(&greedy[1])];
        tokio::time::advance(Duration::from_millis(10)).await;
        let third = waits(&greedy[2]);
        assert!(!holders.revoke_one(), "each has its time");
        tokio::time::advance(limits::CLIENT_STALL_GRACE).await;
        let is_taken = |holder: &ResourceHolder| holder.state.taken_back.is_cancelled();
        assert!(holders.revoke_one() && is_taken(&greedy[1]), "the one that has waited the longest");
        drop(third);
        assert!(holders.revoke_one() && is_taken(&modest), "the only one that waits");
        assert!(!holders.revoke_one() && busy.iter().chain([&greedy[0], &greedy[2]]).all(|holder| !is_taken(holder)));
        drop((modest, greedy, busy));
        assert!(holders.known().holders.is_empty());
    }
}
