//! Counts unknown secrets and names per client: each costs a read of Postgres, and enough guesses find real ones.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairness::Client;
use tokio::time::Instant;

#[derive(Debug, Clone, Copy)]
pub(super) struct UnknownLimits {
    /// Unknown names that one client may request, counting only those that have to be looked up.
    pub(super) of_client: u32,
    /// Those of a block of networks, all of which one customer may control.
    pub(super) of_block: u32,
    pub(super) every: Duration,
    /// The maximum of counted clients and blocks.
    pub(super) clients: usize,
}

pub(super) const KEYS: UnknownLimits = UnknownLimits {
    of_client: limits::UNKNOWN_KEYS,
    of_block: limits::UNKNOWN_KEYS_OF_BLOCK,
    every: limits::UNKNOWN_KEYS_EVERY,
    clients: limits::UNKNOWN_KEY_CLIENTS,
};

pub(super) const SHARES: UnknownLimits = UnknownLimits {
    of_client: limits::UNKNOWN_SHARES,
    of_block: limits::UNKNOWN_SHARES_OF_BLOCK,
    every: limits::UNKNOWN_SHARES_EVERY,
    clients: limits::UNKNOWN_SHARE_CLIENTS,
};

/// The number of unknown names that each client and block of clients has requested.
#[derive(Debug)]
pub(super) struct UnknownCounter {
    most: UnknownLimits,
    counts: Mutex<HashMap<Client, UnknownCount>>,
}

/// The count of one client, which restarts [`UnknownLimits::every`] after its first request.
#[derive(Debug)]
struct UnknownCount {
    first: Instant,
    asked: u32,
}

impl UnknownCount {
    /// Returns the time until the count restarts; zero if that is due.
    fn left(&self, every: Duration, now: Instant) -> Duration {
        (self.first + every).saturating_duration_since(now)
    }
}

impl UnknownCounter {
    pub(super) fn new(most: UnknownLimits) -> Self {
        Self { most, counts: Mutex::default() }
    }

    pub(super) fn admit(&self, client: Client) -> Result<(), Duration> {
        let (counts, now) = (self.lock_counts(), Instant::now());
        let lefts = self.counters_for(client).filter_map(|(counted, most)| {
            let count = counts.get(&counted).filter(|count| count.asked >= most)?;
            Some(count.left(self.most.every, now)).filter(|left| !left.is_zero())
        });
        lefts.max().map_or(Ok(()), Err)
    }

    /// Counts an unknown name that `client` requested. While [`UnknownLimits::clients`] are counted, further clients are not.
    pub(super) fn count(&self, client: Client) {
        let (mut counts, now, every) = (self.lock_counts(), Instant::now(), self.most.every);
        for (counted, _) in self.counters_for(client) {
            if counts.len() >= self.most.clients && !counts.contains_key(&counted) {
                counts.retain(|_, count| !count.left(every, now).is_zero());
                if counts.len() >= self.most.clients {
                    continue;
                }
            }
            let count = counts.entry(counted).or_insert(UnknownCount { first: now, asked: 0 });
            if count.left(every, now).is_zero() {
                *count = UnknownCount { first: now, asked: 0 };
            }
            count.asked = count.asked.saturating_add(1);
        }
    }

    /// Returns the client's block, if any, and the client, each with its maximum. The block comes first, because it
    /// takes one entry even if it has more clients than can be counted.
    fn counters_for(&self, client: Client) -> impl Iterator<Item = (Client, u32)> + use<> {
        let UnknownLimits { of_client, of_block, .. } = self.most;
        client.block().map(|block| (block, of_block)).into_iter().chain([(client, of_client)])
    }

    fn lock_counts(&self) -> MutexGuard<'_, HashMap<Client, UnknownCount>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn client(address: &str) -> Client {
        address.parse::<IpAddr>().unwrap().into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_so_many_in_a_minute() {
        let unknown = UnknownCounter::new(KEYS);
        let (greedy, other) = (client("2001:db8::1"), client("192.0.2.1"));
        for _ in 0..limits::UNKNOWN_KEYS {
            assert_eq!(unknown.admit(greedy), Ok(()));
            unknown.count(greedy);
        }
        assert_eq!(unknown.admit(client("2001:db8::2")), Err(limits::UNKNOWN_KEYS_EVERY), "the same customer");
        assert_eq!(unknown.admit(other), Ok(()));
        tokio::time::advance(limits::UNKNOWN_KEYS_EVERY / 2).await;
        assert_eq!(unknown.admit(greedy), Err(limits::UNKNOWN_KEYS_EVERY / 2));
        tokio::time::advance(limits::UNKNOWN_KEYS_EVERY / 2).await;
        assert_eq!(unknown.admit(greedy), Ok(()));
        unknown.count(greedy);
        assert_eq!(unknown.admit(greedy), Ok(()), "a new minute");
    }

    #[test]
    fn a_block_of_networks_has_so_many_however_many_clients_it_is() {
        let unknown = UnknownCounter::new(KEYS);
        let shown = (0..u32::from(u16::MAX)).take_while(|network| {
            let client = client(&format!("2001:db8:7:{network:x}::1"));
            unknown.admit(client).inspect(|()| unknown.count(client)).is_ok()
        });
        assert_eq!(shown.count(), limits::UNKNOWN_KEYS_OF_BLOCK as usize);
        assert_eq!(unknown.admit(client("2001:db8:8::1")), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn clients_are_forgotten_when_there_are_many() {
        let unknown = UnknownCounter::new(KEYS);
        let numbered = |number: usize| IpAddr::from(Ipv4Addr::from_bits(u32::try_from(number).unwrap())).into();
        for number in 0..limits::UNKNOWN_KEY_CLIENTS + 10 {
            unknown.count(numbered(number));
        }
        assert_eq!(unknown.lock_counts().len(), limits::UNKNOWN_KEY_CLIENTS);
        tokio::time::advance(limits::UNKNOWN_KEYS_EVERY).await;
        unknown.count(client("192.0.2.1"));
        assert_eq!(unknown.lock_counts().len(), 1);
    }
}
