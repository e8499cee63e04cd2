//! Session tickets that every edge can decrypt: their keys derive from a shared key and the hour, with no exchange.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwap;
use domain::Clock;
use rustls::server::ProducesTickets;
use secrets::{EdgeKey, master_key};

const HOUR_SECONDS: u64 = 3_600;
const IDENTITY: &[u8] = b"tls ticket";

pub(crate) struct SessionTickets {
    edge_key: EdgeKey,
    clock: Clock,
    /// The current hour's key, with which nearly every ticket is made.
    current: ArcSwap<(u64, [u8; 32])>,
}

impl SessionTickets {
    pub(crate) fn new(edge_key: EdgeKey, clock: Clock) -> Self {
        let hour = hour(&clock);
        let current = ArcSwap::from_pointee((hour, edge_key.tickets(hour)));
        Self { edge_key, clock, current }
    }

    fn hour_key(&self, hour: u64, now: u64) -> [u8; 32] {
        let current = self.current.load();
        if current.0 == hour {
            return current.1;
        }
        let key = self.edge_key.tickets(hour);
        if hour == now {
            self.current.store(Arc::new((hour, key)));
        }
        key
    }
}

fn hour(clock: &Clock) -> u64 {
    clock.now().unix_millis() / 1_000 / HOUR_SECONDS
}

impl ProducesTickets for SessionTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(limits::TICKET_HOURS * HOUR_SECONDS).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let now = hour(&self.clock);
        let sealed = master_key::seal(&self.hour_key(now, now), IDENTITY, plain);
        Some([&now.to_be_bytes(), sealed.as_slice()].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (hour_bytes, sealed) = ticket.split_first_chunk()?;
        let (made, now) = (u64::from_be_bytes(*hour_bytes), hour(&self.clock));
        // An hour ahead: edges' clocks may differ when the hour changes.
        let acceptable = now.saturating_sub(limits::TICKET_HOURS)..=now + 1;
        if !acceptable.contains(&made) {
            return None;
        }
        master_key::open(&self.hour_key(made, now), IDENTITY, sealed).ok()
    }
}

impl fmt::Debug for SessionTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets(…)")
    }
}

#[cfg(test)]
mod tests {
    use domain::Timestamp;

    use super::*;

    fn at_hour(key: &EdgeKey, hour: i64) -> SessionTickets {
        SessionTickets::new(key.clone(), Clock::from_fn(move || Timestamp::from_unix_millis(hour * 3_600_000)))
    }

    #[test]
    fn another_edge_opens_the_ticket_until_it_is_too_old() {
        let key = EdgeKey::generate();
        let ticket = at_hour(&key, 100).encrypt(b"session").unwrap();
        for hour in [99, 100, 101, 106] {
            assert_eq!(at_hour(&key, hour).decrypt(&ticket).as_deref(), Some(&b"session"[..]), "{hour}");
        }
        for hour in [98, 107, 200] {
            assert_eq!(at_hour(&key, hour).decrypt(&ticket), None, "{hour}");
        }
    }

    #[test]
    fn a_ticket_of_another_key_or_form_does_not_open() {
        let ours = at_hour(&EdgeKey::generate(), 100);
        let theirs = at_hour(&EdgeKey::generate(), 100);
        let mut ticket = ours.encrypt(b"session").unwrap();
        assert_eq!(theirs.decrypt(&ticket), None);
        assert_eq!(ours.decrypt(b""), None);
        assert_eq!(ours.decrypt(&ticket[..8]), None);
        // Another hour's number selects another hour's key.
        ticket[7] -= 1;
        assert_eq!(ours.decrypt(&ticket), None);
    }
}
