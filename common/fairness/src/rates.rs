//! A rate of bytes for each key (an account), shared in turns by its clients.
//!
//! Bytes are booked before they are sent; a booking tells when they may go out. Bookings are made in the order of
//! requests, and a client has only a few at a time, so that each client gets its part of the rate however many streams
//! it opens.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::Client;

/// The number of keys, or clients of a key, below which idle ones are not searched for.
const KNOWN: usize = 64;

/// The rate that applies to each key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Bytes per second, at least one.
    pub bytes_per_second: u64,
    /// Bytes that may go out immediately after an idle time.
    pub burst: u64,
    /// The limit of concurrent bookings for a client.
    pub bookings: usize,
    /// The delay of new bookings above which a key is crowded.
    pub backlog: Duration,
}

/// The outcome of a request to book bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BookingOutcome {
    /// The bytes are booked, and may go out from this instant on.
    From(Instant),
    /// The client has reached its limit of bookings and should retry at this instant.
    AskAgain(Instant),
}

/// The keys with their rates.
#[derive(Debug)]
pub struct RateLimiter<K> {
    rate: RateLimit,
    state: Mutex<LimiterState<K>>,
}

#[derive(Debug)]
struct LimiterState<K> {
    keys: HashMap<K, KeyBookings>,
    /// The number of keys at which idle ones are next forgotten.
    full: usize,
}

#[derive(Debug)]
struct KeyBookings {
    /// The instant at which everything booked has gone out.
    booked_until: Instant,
    /// When the bytes of each client's bookings may go out, earliest first.
    clients: HashMap<Client, VecDeque<Instant>>,
    /// The number of clients at which those without bookings are next forgotten.
    full: usize,
}

impl<K: Clone + Eq + Hash> RateLimiter<K> {
    /// Creates an unused rate.
    pub fn new(rate: RateLimit) -> Self {
        let rate = RateLimit { bytes_per_second: rate.bytes_per_second.max(1), bookings: rate.bookings.max(1), ..rate };
        Self { rate, state: Mutex::new(LimiterState { keys: HashMap::new(), full: KNOWN }) }
    }

    /// Returns the rate that applies to each key.
    pub fn rate(&self) -> RateLimit {
        self.rate
    }

    /// Books `bytes` of the rate of `key` for `client`. Booked bytes are used up, whether sent or not.
    pub fn book(&self, key: &K, client: Client, bytes: u64, now: Instant) -> BookingOutcome {
        let mut state = self.state();
        let burst = self.duration_of_bytes(self.rate.burst);
        if state.keys.len() >= state.full {
            state.keys.retain(|_, key| key.booked_until + burst > now);
            state.full = (2 * state.keys.len()).max(KNOWN);
        }
        let key = state.keys.entry(key.clone()).or_insert_with(|| KeyBookings {
            booked_until: now.checked_sub(burst).unwrap_or(now),
            clients: HashMap::new(),
            full: KNOWN,
        });
        if key.clients.len() >= key.full {
            key.clients.retain(|_, bookings| bookings.back().is_some_and(|last| *last > now));
            key.full = (2 * key.clients.len()).max(KNOWN);
        }
        let bookings = key.clients.entry(client).or_default();
        while bookings.front().is_some_and(|first| *first <= now) {
            bookings.pop_front();
        }
        if let Some(first) = bookings.front()
            && bookings.len() >= self.rate.bookings
        {
            return BookingOutcome::AskAgain(*first);
        }
        let from = now.checked_sub(burst).map_or(key.booked_until, |earliest| key.booked_until.max(earliest));
        key.booked_until = from + self.duration_of_bytes(bytes);
        if from > now {
            bookings.push_back(from);
        }
        BookingOutcome::From(from.max(now))
    }

    /// Returns whether `key` has so long a backlog that no further request should start to wait.
    pub fn is_crowded(&self, key: &K, now: Instant) -> bool {
        self.state().keys.get(key).is_some_and(|key| key.booked_until > now + self.rate.backlog)
    }

    fn duration_of_bytes(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.bytes_per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn state(&self) -> MutexGuard<'_, LimiterState<K>> {
        // Nothing panics while the lock is held, so its contents are consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const RATE: RateLimit =
        RateLimit { bytes_per_second: 1_000, burst: 2_000, bookings: 2, backlog: Duration::from_secs(5) };

    fn client(number: u32) -> Client {
        Client::from(std::net::IpAddr::from(Ipv4Addr::from_bits(number)))
    }

    /// An instant with a past, whatever the machine's uptime.
    fn start() -> Instant {
        Instant::now() + Duration::from_hours(1)
    }

    fn seconds(booking: BookingOutcome, start: Instant) -> Result<f64, f64> {
        match booking {
            BookingOutcome::From(at) => Ok((at - start).as_secs_f64()),
            BookingOutcome::AskAgain(at) => Err((at - start).as_secs_f64()),
        }
    }

    #[test]
    fn a_key_has_its_burst_and_then_its_rate() {
        let (rates, start) = (RateLimiter::new(RATE), start());
        let book = |key, number| seconds(rates.book(&key, client(number), 1_000, start), start);
        assert_eq!([1, 2, 3, 4, 5].map(|number| book("a", number)), [0.0, 0.0, 0.0, 1.0, 2.0].map(Ok));
        assert_eq!(book("b", 1), Ok(0.0), "another key has a rate of its own");
        let later = start + Duration::from_mins(1);
        assert_eq!(
            [1, 2, 3, 4].map(|number| seconds(rates.book(&"a", client(number), 1_000, later), later)),
            [Ok(0.0), Ok(0.0), Ok(0.0), Ok(1.0)]
        );
    }

    #[test]
    fn who_asks_for_much_leaves_the_others_their_turns() {
        let (rates, start) = (RateLimiter::new(RateLimit { burst: 0, ..RATE }), start());
        let book = |number, now| seconds(rates.book(&(), client(number), 1_000, now), start);
        assert_eq!(book(1, start), Ok(0.0));
        assert_eq!([book(1, start), book(1, start)], [Ok(1.0), Ok(2.0)]);
        assert_eq!(book(1, start), Err(1.0), "two bookings wait, so that it has no third");
        assert_eq!(book(2, start), Ok(3.0));
        assert_eq!(book(1, start + Duration::from_secs(1)), Ok(4.0));
    }

    #[test]
    fn in_any_window_no_more_goes_out_than_burst_and_rate() {
        let (rates, start) = (RateLimiter::new(RATE), start());
        let mut sent = Vec::new();
        let mut now = start;
        for number in 0..200 {
            match rates.book(&(), client(number % 3), 700, now) {
                BookingOutcome::From(at) => sent.push(at),
                BookingOutcome::AskAgain(at) => now = at,
            }
        }
        sent.sort();
        for (first, from) in sent.iter().enumerate() {
            for (last, to) in sent.iter().enumerate().skip(first) {
                let most = 2_000.0 + 700.0 + (*to - *from).as_secs_f64() * 1_000.0;
                let bytes = u32::try_from((last - first + 1) * 700).unwrap();
                assert!(f64::from(bytes) <= most + 1.0);
            }
        }
    }

    #[test]
    fn a_key_is_crowded_by_what_is_booked() {
        let (rates, start) = (RateLimiter::new(RATE), start());
        assert!(!rates.is_crowded(&(), start));
        for number in 0..8 {
            let _ = rates.book(&(), client(number), 1_000, start);
        }
        assert!(rates.is_crowded(&(), start));
        assert!(!rates.is_crowded(&(), start + Duration::from_secs(2)));
    }

    #[test]
    fn who_wants_nothing_any_more_is_forgotten() {
        let (rates, start) = (RateLimiter::new(RATE), start());
        let count = u32::try_from(3 * KNOWN).unwrap();
        for number in 0..count {
            let now = start + Duration::from_mins(u64::from(number));
            let _ = rates.book(&number, client(1), 1_000, now);
            let _ = rates.book(&u32::MAX, client(number), 1_000, now);
        }
        let state = rates.state();
        assert!(state.keys.len() <= KNOWN && state.keys[&u32::MAX].clients.len() <= KNOWN);
    }
}
