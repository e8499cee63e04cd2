//! Gateway keys that are nobody's, counted for each client: every one that is made up costs a read of Postgres.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairness::Client;
use tokio::time::Instant;

use crate::limits;

/// For each client and block of clients, the number of gateway keys that it has shown and that are nobody's.
#[derive(Debug, Default)]
pub(super) struct UnknownKeys(Mutex<HashMap<Client, Count>>);

/// The unknown keys of one client. Counting begins anew [`limits::UNKNOWN_KEYS_EVERY`] after the first of them.
#[derive(Debug)]
struct Count {
    first: Instant,
    keys: u32,
}

impl Count {
    /// The time until counting begins anew; zero when that is due.
    fn left(&self, now: Instant) -> Duration {
        (self.first + limits::UNKNOWN_KEYS_EVERY).saturating_duration_since(now)
    }
}

impl UnknownKeys {
    /// Allows another key of `client` to be looked up, or returns the time until one may be.
    pub(super) fn admit(&self, client: Client) -> Result<(), Duration> {
        let (counts, now) = (self.counts(), Instant::now());
        let lefts = counted(client).filter_map(|(counted, most)| {
            let count = counts.get(&counted).filter(|count| count.keys >= most)?;
            Some(count.left(now)).filter(|left| !left.is_zero())
        });
        lefts.max().map_or(Ok(()), Err)
    }

    /// Counts a key of `client` that is nobody's. While [`limits::UNKNOWN_KEY_CLIENTS`] clients are counted, another client's keys
    /// are not.
    pub(super) fn count(&self, client: Client) {
        let (mut counts, now) = (self.counts(), Instant::now());
        for (counted, _) in counted(client) {
            if counts.len() >= limits::UNKNOWN_KEY_CLIENTS && !counts.contains_key(&counted) {
                counts.retain(|_, count| !count.left(now).is_zero());
                if counts.len() >= limits::UNKNOWN_KEY_CLIENTS {
                    continue;
                }
            }
            let count = counts.entry(counted).or_insert(Count { first: now, keys: 0 });
            if count.left(now).is_zero() {
                *count = Count { first: now, keys: 0 };
            }
            count.keys = count.keys.saturating_add(1);
        }
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Client, Count>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The block that a client is in, if it is in one, and the client, each with the keys that it may show. The block first: of more clients
/// than are counted, it is one.
fn counted(client: Client) -> impl Iterator<Item = (Client, u32)> {
    let block = client.block().map(|block| (block, limits::UNKNOWN_KEYS_OF_BLOCK));
    block.into_iter().chain([(client, limits::UNKNOWN_KEYS)])
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
        let unknown = UnknownKeys::default();
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
        let unknown = UnknownKeys::default();
        let shown = (0..u32::from(u16::MAX)).take_while(|network| {
            let client = client(&format!("2001:db8:7:{network:x}::1"));
            unknown.admit(client).inspect(|()| unknown.count(client)).is_ok()
        });
        assert_eq!(shown.count(), limits::UNKNOWN_KEYS_OF_BLOCK as usize);
        assert_eq!(unknown.admit(client("2001:db8:8::1")), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn clients_are_forgotten_when_there_are_many() {
        let unknown = UnknownKeys::default();
        let numbered = |number: usize| IpAddr::from(Ipv4Addr::from_bits(u32::try_from(number).unwrap())).into();
        for number in 0..limits::UNKNOWN_KEY_CLIENTS + 10 {
            unknown.count(numbered(number));
        }
        assert_eq!(unknown.counts().len(), limits::UNKNOWN_KEY_CLIENTS);
        tokio::time::advance(limits::UNKNOWN_KEYS_EVERY).await;
        unknown.count(client("192.0.2.1"));
        assert_eq!(unknown.counts().len(), 1);
    }
}
