//! Counts what each client used of this edge within the last minute: in memory only, and discarded after it.
//!
//! A connection counts into its client's [`ClientTally`] without a lookup; for a visitor behind a trusted proxy, each request
//! looks up the tally, and adds the length of its response. [`report`] tells an operator which clients use the most.
//! This module refuses no requests. Start with [`TopClients`].

mod report;

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use edge_metrics as metrics;
use fairness::Client;
use live::bus::ClientCounts;
use tokio::time::{MissedTickBehavior, interval};

pub use self::report::answer_questions;

/// The clients of the last minute.
#[derive(Debug, Default)]
pub struct TopClients {
    clients: Mutex<HashMap<Client, TrackedClient>>,
}

/// The use of a client since it was first counted. Shared by its connections.
#[derive(Debug, Default)]
pub struct ClientTally {
    connections: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
    refusals: AtomicU64,
}

#[derive(Debug, Default)]
struct TrackedClient {
    tally: Arc<ClientTally>,
    /// The totals at the last ticks, oldest first: the first is of a minute ago.
    past: VecDeque<UsageCounts>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct UsageCounts {
    connections: u64,
    requests: u64,
    bytes: u64,
    refusals: u64,
}

impl ClientTally {
    /// Counts a connection that was accepted from the client.
    pub fn count_connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that arrived from the client, whatever the response to it is.
    pub fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes that were written to the client, or that a response to it through a trusted proxy has.
    pub fn count_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts a connection or a request that was refused because the client has used up its share.
    pub fn count_refusal(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> UsageCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Self { connections, requests, bytes, refusals } = self;
        UsageCounts { connections: of(connections), requests: of(requests), bytes: of(bytes), refusals: of(refusals) }
    }
}

impl TrackedClient {
    fn last_minute(&self) -> UsageCounts {
        let minute_ago = self.past.front().filter(|_| self.past.len() >= limits::TALKERS_TICKS);
        let (now, then) = (self.tally.counts(), minute_ago.copied().unwrap_or_default());
        UsageCounts {
            connections: now.connections - then.connections,
            requests: now.requests - then.requests,
            bytes: now.bytes - then.bytes,
            refusals: now.refusals - then.refusals,
        }
    }

    /// Returns the number of open connections, and of pending requests through a trusted proxy.
    fn open(&self) -> usize {
        Arc::strong_count(&self.tally) - 1
    }
}

impl TopClients {
    /// Returns the tally of the client at `address`. Beyond [`limits::TALKERS`] clients, a new one's is not recorded.
    pub fn tally(&self, address: IpAddr) -> Arc<ClientTally> {
        let mut clients = self.clients();
        let client = Client::from(address);
        match clients.get(&client) {
            Some(talker) => talker.tally.clone(),
            None if clients.len() < limits::TALKERS => clients.entry(client).or_default().tally.clone(),
            None => Arc::default(),
        }
    }

    /// Discards counts older than a minute, for as long as it is polled.
    pub async fn forget(&self) {
        let mut every = interval(limits::TALKERS_TICK);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            self.tick();
        }
    }

    fn tick(&self) {
        let mut clients = self.clients();
        let mut most = UsageCounts::default();
        clients.retain(|_, talker| {
            let lately = talker.last_minute();
            most.requests = most.requests.max(lately.requests);
            most.bytes = most.bytes.max(lately.bytes);
            most.refusals = most.refusals.max(lately.refusals);
            if talker.past.len() >= limits::TALKERS_TICKS {
                talker.past.pop_front();
            }
            talker.past.push_back(talker.tally.counts());
            lately != UsageCounts::default() || talker.open() > 0
        });
        let known = clients.len();
        drop(clients);
        metrics::level("svc_clients", known);
        for (name, count) in [
            ("svc_clients_greediest_requests", most.requests),
            ("svc_clients_greediest_bytes", most.bytes),
            ("svc_clients_greediest_refusals", most.refusals),
        ] {
            metrics::level(name, usize::try_from(count).unwrap_or(usize::MAX));
        }
    }

    /// Returns the `count` clients with the most use within the last minute, by requests and refusals, then by bytes.
    fn top(&self, count: usize) -> Vec<ClientCounts> {
        let mut top: Vec<_> = {
            let clients = self.clients();
            clients.iter().map(|(client, talker)| (*client, talker.open(), talker.last_minute())).collect()
        };
        top.sort_unstable_by_key(|(client, open, lately)| {
            (std::cmp::Reverse((lately.requests + lately.refusals, lately.bytes, *open)), *client)
        });
        top.truncate(count);
        let counts = |(client, open, lately): (Client, usize, UsageCounts)| ClientCounts {
            client: client.to_string(),
            open: open as u64,
            connections: lately.connections,
            requests: lately.requests,
            bytes: lately.bytes,
            refusals: lately.refusals,
        };
        top.into_iter().map(counts).collect()
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<Client, TrackedClient>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn the_greediest_come_first_and_are_forgotten_after_a_minute() {
        let talkers = TopClients::default();
        for last in 1..=5 {
            let tally = talkers.tally(address(last));
            tally.count_connection();
            (0..last).for_each(|_| tally.count_request());
            tally.count_bytes(1_000);
        }
        let held = talkers.tally(address(1));
        let top = talkers.top(2);
        assert_eq!(top.iter().map(|counts| &*counts.client).collect::<Vec<_>>(), ["192.0.2.5", "192.0.2.4"]);
        assert_eq!((top[0].open, top[0].connections, top[0].requests, top[0].bytes), (0, 1, 5, 1_000));
        for _ in 0..limits::TALKERS_TICKS {
            talkers.tick();
            assert_eq!(talkers.top(9).len(), 5);
        }
        talkers.tick();
        talkers.tick();
        let left = talkers.top(9);
        assert_eq!((left.len(), left[0].open, left[0].requests), (1, 1, 0), "only who is connected is known still");
        drop(held);
        talkers.tick();
        assert!(talkers.top(9).is_empty());
    }

    #[test]
    fn so_many_are_known_and_no_more() {
        let talkers = TopClients::default();
        for number in 0..u32::try_from(limits::TALKERS).unwrap() + 10 {
            talkers.tally(std::net::Ipv4Addr::from_bits(number).into()).count_request();
        }
        assert_eq!(talkers.clients().len(), limits::TALKERS);
    }
}
