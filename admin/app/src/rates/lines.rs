//! Limits log lines about anonymous requests, per client and in total, so that nobody can fill the log by requesting a
//! page without end. Counted per process, like the log itself.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use fairness::Client;

use super::{CLIENTS_OF_BLOCK, LINES_OF_STRANGER, LINES_OF_STRANGERS, MINUTE};

/// The lines of the current minute.
#[derive(Debug, Default)]
pub struct AnonymousLogLimit(Mutex<Option<MinuteCounts>>);

#[derive(Debug)]
struct MinuteCounts {
    since: Instant,
    all: u32,
    /// The lines of each client and of each block of clients. Bounded, because a line adds at most two entries.
    of: HashMap<Client, u32>,
}

impl AnonymousLogLimit {
    /// Creates a counter without lines.
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Returns whether a request of `client`, if known, may be logged, and counts it if so.
    pub fn admit(&self, client: Option<Client>) -> bool {
        self.admit_at(client, Instant::now())
    }

    fn admit_at(&self, client: Option<Client>, now: Instant) -> bool {
        // The lock is never poisoned: no code panics while holding it.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |minute: &MinuteCounts| now.saturating_duration_since(minute.since) >= MINUTE;
        if state.as_ref().is_none_or(is_over) {
            *state = Some(MinuteCounts { since: now, all: 0, of: HashMap::new() });
        }
        let Some(minute) = state.as_mut() else { return false };
        let block = client.and_then(Client::block);
        let bounds = [(client, LINES_OF_STRANGER), (block, LINES_OF_STRANGER * CLIENTS_OF_BLOCK)]
            .map(|(of, most)| Some((of?, most)));
        let has_all = |(of, most): &(Client, u32)| minute.of.get(of).is_some_and(|lines| lines >= most);
        if minute.all >= LINES_OF_STRANGERS || bounds.iter().flatten().any(has_all) {
            return false;
        }
        minute.all += 1;
        for (of, _) in bounds.into_iter().flatten() {
            *minute.of.entry(of).or_default() += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn client(address: &str) -> Client {
        address.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn a_client_has_so_many_lines_in_a_minute() {
        let (lines, now) = (AnonymousLogLimit::new(), Instant::now());
        let admitted = |client, at| (0..LINES_OF_STRANGERS).filter(|_| lines.admit_at(client, at)).count();
        let greedy = Some(client("192.0.2.1"));
        assert_eq!(admitted(greedy, now), LINES_OF_STRANGER as usize);
        assert!(lines.admit_at(Some(client("192.0.2.2")), now), "another client has its own");
        assert_eq!(admitted(greedy, now + MINUTE), LINES_OF_STRANGER as usize, "a new minute");
    }

    #[test]
    fn many_clients_together_have_so_many() {
        let (lines, now) = (AnonymousLogLimit::new(), Instant::now());
        let of_network = |network: u16| Some(client(&format!("2001:db8:7:{network:x}::1")));
        let of_block = (0..2_000).filter(|network| lines.admit_at(of_network(*network), now)).count();
        assert_eq!(of_block, (LINES_OF_STRANGER * CLIENTS_OF_BLOCK).min(LINES_OF_STRANGERS) as usize);
        let of_all =
            (0..u16::MAX).filter(|block| lines.admit_at(Some(client(&format!("2001:db9:{block:x}::1"))), now)).count();
        assert_eq!(of_block + of_all, LINES_OF_STRANGERS as usize);
        assert!(!lines.admit_at(None, now), "and who is not known has one of them");
    }
}
