//! Gateway keys that are nobody's, counted for each client: every one that is made up costs a read of Postgres.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairness::Client;
use tokio::time::Instant;

use crate::limits;

/// For each client, the number of gateway keys that it has shown and that are nobody's.
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
        match self.counts().get(&client).map(|count| (count.keys, count.left(Instant::now()))) {
            Some((keys, left)) if keys >= limits::UNKNOWN_KEYS && !left.is_zero() => Err(left),
            _ => Ok(()),
        }
    }

    /// Counts a key of `client` that is nobody's. While [`limits::UNKNOWN_KEY_CLIENTS`] clients are counted, another client's keys
    /// are not.
    pub(super) fn count(&self, client: Client) {
        let (mut counts, now) = (self.counts(), Instant::now());
        if counts.len() >= limits::UNKNOWN_KEY_CLIENTS && !counts.contains_key(&client) {
            counts.retain(|_, count| !count.left(now).is_zero());
            if counts.len() >= limits::UNKNOWN_KEY_CLIENTS {
                return;
            }
        }
        let count = counts.entry(client).or_insert(Count { first: now, keys: 0 });
        if count.left(now).is_zero() {
            *count = Count { first: now, keys: 0 };
        }
        count.keys = count.keys.saturating_add(1);
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Client, Count>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
