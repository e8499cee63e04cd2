//! How often one client may guess at one site's password.

use std::{net::IpAddr, num::NonZeroU32};

use domain::ProjectId;
use fairness::Client;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter, clock::Clock as _};

use crate::limits::{GUESSERS, GUESSERS_FULL_WAIT_SECONDS, GUESSES_PER_MINUTE};

type Guesser = (ProjectId, Client);

/// Counts guesses.
pub(super) struct Guesses {
    limiter: DefaultKeyedRateLimiter<Guesser>,
    capacity: usize,
}

impl Guesses {
    pub(super) fn new() -> Self {
        Self::with_capacity(GUESSERS)
    }

    fn with_capacity(capacity: usize) -> Self {
        let quota = Quota::per_minute(NonZeroU32::new(GUESSES_PER_MINUTE).unwrap_or(NonZeroU32::MIN));
        Self { limiter: RateLimiter::keyed(quota), capacity }
    }

    /// Counts a guess, or says how many seconds to wait for the next.
    pub(super) fn count(&self, project: &ProjectId, client: IpAddr) -> Result<(), u64> {
        if self.limiter.len() >= self.capacity {
            // Those who have all their guesses again need no memory.
            self.limiter.retain_recent();
            if self.limiter.len() >= self.capacity {
                return Err(GUESSERS_FULL_WAIT_SECONDS);
            }
        }
        self.limiter.check_key(&(project.clone(), client.into())).map_err(|denied| {
            let wait = denied.wait_time_from(governor::clock::DefaultClock::default().now());
            wait.as_secs() + 1
        })
    }
}

#[cfg(test)]
mod tests {
    use domain::Timestamp;

    use super::*;

    #[test]
    fn each_client_and_site_has_its_own_guesses() {
        let guesses = Guesses::new();
        let now = Timestamp::from_unix_millis(0);
        let (site, other) = (ProjectId::new(now), ProjectId::new(now));
        let client: IpAddr = "2001:db8::1".parse().unwrap();
        for _ in 0..GUESSES_PER_MINUTE {
            assert_eq!(guesses.count(&site, client), Ok(()));
        }
        assert!(guesses.count(&site, client).is_err_and(|seconds| (1..=60).contains(&seconds)));
        assert!(guesses.count(&site, "2001:db8::2".parse().unwrap()).is_err(), "the same customer");
        assert_eq!(guesses.count(&site, "2001:db8:0:1::1".parse().unwrap()), Ok(()));
        assert_eq!(guesses.count(&site, "192.0.2.1".parse().unwrap()), Ok(()));
        assert_eq!(guesses.count(&other, client), Ok(()));
    }

    #[test]
    fn a_full_memory_lets_nobody_guess() {
        let guesses = Guesses::with_capacity(2);
        let site = ProjectId::new(Timestamp::from_unix_millis(0));
        let results = [1, 2, 3].map(|last| guesses.count(&site, IpAddr::from([192, 0, 2, last])));
        assert_eq!(results, [Ok(()), Ok(()), Err(GUESSERS_FULL_WAIT_SECONDS)]);
    }
}
