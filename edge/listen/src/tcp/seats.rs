//! Limits the number of connections: in total, part of which is reserved from plain HTTP, and per client.
//!
//! An accepted connection has a [`ConnectionSeat`] until it ends; [`super::shedding`] takes seats back under shortage.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use domain::networks::NetworkSet;
use fairness::{Client, ShareError, TurnBounds, TurnPermit, TurnQueue};
use gateway::ConnectionCompletions;
use http_types::clients::{ClientTally, TopClients};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeatBounds {
    pub(crate) total: usize,
    pub(crate) share: usize,
}

pub(crate) struct ConnectionSeats {
    bounds: SeatBounds,
    total: Arc<Semaphore>,
    /// Required by plain HTTP in addition to one of `total`.
    plain: Arc<Semaphore>,
    clients: TurnQueue<Client>,
    taken: Mutex<HashMap<u64, Arc<ConnectionSeat>>>,
    next: AtomicU64,
    talkers: Arc<TopClients>,
}

/// Room for a connection that has not been accepted yet.
pub(crate) struct ConnectionRoom {
    _total: OwnedSemaphorePermit,
    _plain: Option<OwnedSemaphorePermit>,
}

/// The state of a connection that other tasks can access.
#[derive(Debug, Default)]
pub(crate) struct ConnectionSeat {
    /// The client of the connection; `None` for a trusted proxy's.
    pub(crate) client: Option<Client>,
    /// The tally of its client; not recorded for a trusted proxy's connection.
    pub(crate) tally: Arc<ClientTally>,
    pub(crate) requests: AtomicU64,
    /// The value of `requests` when shedding last checked.
    pub(crate) seen: AtomicU64,
    pub(crate) completions: ConnectionCompletions,
    is_asked: AtomicBool,
    ask: Notify,
    /// Its task. Shared with the seat that the connection had before its client was known.
    task: Arc<OnceLock<AbortHandle>>,
}

pub(crate) struct SeatGuard {
    seats: Arc<ConnectionSeats>,
    number: u64,
    seat: Arc<ConnectionSeat>,
    _room: ConnectionRoom,
    turn: Option<TurnPermit<Client>>,
}

impl ConnectionSeats {
    pub(crate) fn new(bounds: SeatBounds, talkers: Arc<TopClients>) -> Arc<Self> {
        let plain = bounds.total - bounds.total * limits::HTTPS_RESERVE_PERCENT / 100;
        let clients = TurnBounds { total: bounds.total, share: bounds.share, waiting: 0, waiting_share: 0 };
        Arc::new(Self {
            bounds,
            total: Arc::new(Semaphore::new(bounds.total)),
            plain: Arc::new(Semaphore::new(plain.max(1))),
            clients: TurnQueue::new(clients),
            taken: Mutex::default(),
            next: AtomicU64::new(0),
            talkers,
        })
    }

    pub(crate) async fn wait_for_room(&self, is_plain: bool) -> Option<ConnectionRoom> {
        let plain = if is_plain { Some(self.plain.clone().acquire_owned().await.ok()?) } else { None };
        Some(ConnectionRoom { _total: self.total.clone().acquire_owned().await.ok()?, _plain: plain })
    }

    /// Returns the turn of a client at `peer`. Connections of `trusted` proxies carry many clients, and need none.
    pub(crate) fn admit(&self, peer: IpAddr, trusted: &NetworkSet) -> Result<Option<TurnPermit<Client>>, ShareError> {
        if trusted.contains(peer) {
            return Ok(None);
        }
        self.clients.try_take(&peer.into()).map(Some).inspect_err(|_| self.talkers.tally(peer).count_refusal())
    }

    pub(crate) fn seat(
        self: &Arc<Self>,
        room: ConnectionRoom,
        turn: Option<TurnPermit<Client>>,
        peer: IpAddr,
    ) -> SeatGuard {
        let seat = self.new_seat(turn.as_ref(), peer, Arc::default());
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.taken).insert(number, seat.clone());
        SeatGuard { seats: self.clone(), number, seat, _room: room, turn }
    }

    fn new_seat(
        &self,
        turn: Option<&TurnPermit<Client>>,
        peer: IpAddr,
        task: Arc<OnceLock<AbortHandle>>,
    ) -> Arc<ConnectionSeat> {
        let tally = if turn.is_some() { self.talkers.tally(peer) } else { Arc::default() };
        tally.count_connection();
        Arc::new(ConnectionSeat {
            client: turn.map(|turn| *turn.key()),
            tally,
            requests: AtomicU64::new(0),
            seen: AtomicU64::new(u64::MAX),
            completions: ConnectionCompletions::default(),
            is_asked: AtomicBool::new(false),
            ask: Notify::new(),
            task,
        })
    }

    /// Returns the timeout for a new connection's first byte: shorter while hardly any seats are left for its kind.
    pub(crate) fn first_byte(&self, is_plain: bool) -> Duration {
        let plain = if is_plain { self.plain.available_permits() } else { usize::MAX };
        let free = self.total.available_permits().min(plain) as u64;
        let is_crowded = free * 100 < self.bounds.total as u64 * (100 - limits::SHED_CONNECTIONS_PERCENT);
        if is_crowded { limits::FIRST_BYTE_CROWDED } else { limits::FIRST_BYTE }
    }

    pub(crate) fn total(&self) -> usize {
        self.bounds.total
    }

    pub(crate) fn taken_count(&self) -> usize {
        lock(&self.taken).len()
    }

    /// Returns the taken seats, oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<ConnectionSeat>> {
        let mut list: Vec<_> = lock(&self.taken).iter().map(|(number, seat)| (*number, seat.clone())).collect();
        list.sort_unstable_by_key(|(number, _)| *number);
        list.into_iter().map(|(_, seat)| seat).collect()
    }

    pub(crate) fn greediest(&self, count: usize) -> Vec<(Client, usize)> {
        self.clients.top_keys(count)
    }
}

impl ConnectionSeat {
    /// Requests that the connection ends after it has answered its started requests.
    pub(crate) fn request_end(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
        self.ask.notify_one();
    }

    pub(crate) fn is_end_requested(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    pub(crate) async fn end_requested(&self) {
        self.ask.notified().await;
    }

    pub(crate) fn abort(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    pub(crate) fn set_task(&self, task: AbortHandle) {
        let _ = self.task.set(task);
    }
}

impl SeatGuard {
    /// Assigns the connection to the admitted client at `address`; before that it had no client.
    pub(crate) fn identify(&mut self, turn: Option<TurnPermit<Client>>, address: IpAddr) {
        let seat = self.seats.new_seat(turn.as_ref(), address, self.seat.task.clone());
        if self.seat.is_end_requested() {
            seat.request_end();
        }
        lock(&self.seats.taken).insert(self.number, seat.clone());
        (self.seat, self.turn) = (seat, turn);
    }

    pub(crate) fn seat(&self) -> &Arc<ConnectionSeat> {
        &self.seat
    }
}

impl Drop for SeatGuard {
    fn drop(&mut self) {
        lock(&self.seats.taken).remove(&self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn seats(total: usize, share: usize) -> Arc<ConnectionSeats> {
        ConnectionSeats::new(SeatBounds { total, share }, Arc::default())
    }

    fn trusted() -> NetworkSet {
        NetworkSet::parse(&[PROXY.to_string()]).unwrap()
    }

    fn take(seats: &Arc<ConnectionSeats>, peer: IpAddr, is_plain: bool) -> Result<SeatGuard, Option<ShareError>> {
        let room = seats.wait_for_room(is_plain).now_or_never().flatten().ok_or(None)?;
        Ok(seats.seat(room, seats.admit(peer, &trusted()).map_err(Some)?, peer))
    }

    #[test]
    fn a_client_has_its_share_and_a_proxy_as_much_as_there_is() {
        let seats = seats(10, 2);
        let client = IpAddr::from([192, 0, 2, 1]);
        let held: Vec<_> = (0..2).map(|_| take(&seats, client, false).ok().unwrap()).collect();
        assert_eq!(take(&seats, client, false).err(), Some(Some(ShareError::Share)));
        let others: Vec<_> = (0..8).map(|_| take(&seats, PROXY, false).ok().unwrap()).collect();
        assert_eq!(seats.taken_count(), 10);
        assert_eq!(take(&seats, PROXY, false).err(), Some(None), "nothing is left");
        drop(held);
        assert_eq!(seats.taken_count(), 8);
        assert!(take(&seats, client, false).is_ok());
        drop(others);
    }

    #[test]
    fn a_connection_counts_as_its_client_s_once_that_is_known() {
        let seats = seats(10, 1);
        let client = IpAddr::from([192, 0, 2, 1]);
        let mut balanced = take(&seats, PROXY, false).ok().unwrap();
        let before = balanced.seat().clone();
        balanced.identify(seats.admit(client, &trusted()).unwrap(), client);
        assert_eq!((before.client, balanced.seat().client), (None, Some(Client::from(client))));
        assert_eq!(take(&seats, client, false).err(), Some(Some(ShareError::Share)), "it has the client's only turn");
        assert_eq!((seats.taken_count(), seats.list()[0].client), (1, Some(Client::from(client))));
        drop(balanced);
        assert_eq!(seats.taken_count(), 0);
        assert!(take(&seats, client, false).is_ok());
    }

    #[test]
    fn a_crowd_has_less_time_for_its_first_byte() {
        let seats = seats(40, 40);
        let mut plain: Vec<_> = (0..26).map(|_| take(&seats, PROXY, true).ok().unwrap()).collect();
        assert_eq!([true, false].map(|is_plain| seats.first_byte(is_plain)), [limits::FIRST_BYTE; 2]);
        plain.push(take(&seats, PROXY, true).ok().unwrap());
        assert_eq!(seats.first_byte(true), limits::FIRST_BYTE_CROWDED, "3 are left of the 30 for plain HTTP");
        assert_eq!(seats.first_byte(false), limits::FIRST_BYTE);
        let secure: Vec<_> = (0..10).map(|_| take(&seats, PROXY, false).ok().unwrap()).collect();
        assert_eq!(seats.first_byte(false), limits::FIRST_BYTE_CROWDED, "3 are left of 40");
        drop((plain, secure));
        assert_eq!([true, false].map(|is_plain| seats.first_byte(is_plain)), [limits::FIRST_BYTE; 2]);
    }

    #[test]
    fn plain_http_leaves_room_for_https() {
        let seats = seats(8, 8);
        let plain: Vec<_> = std::iter::from_fn(|| take(&seats, PROXY, true).ok()).collect();
        assert_eq!(plain.len(), 6);
        let secure: Vec<_> = std::iter::from_fn(|| take(&seats, PROXY, false).ok()).collect();
        assert_eq!(secure.len(), 2);
    }
}
