//! Limits how often one client may guess wrong at one site's passwords.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use domain::ProjectId;
use fairness::Client;
use limits::{GUESS_INTERVAL, GUESSERS, GUESSERS_EXAMINED, GUESSES_PER_MINUTE};
use tokio::time::Instant;

type GuesserKey = (ProjectId, Client);

pub(super) struct ClientGuesses {
    tallies: Mutex<GuessTallies>,
    capacity: usize,
}

#[derive(Default)]
struct GuessTallies {
    of: HashMap<GuesserKey, GuessTally>,
    /// The keys of `of`, in the order in which they are checked for eviction.
    order: VecDeque<GuesserKey>,
}

impl GuessTallies {
    /// Evicts entries that have all their guesses again, examining only a few so that no guess pays for a full scan.
    ///
    /// If none of them can be evicted, the oldest one without a pending guess is: otherwise one customer with many
    /// networks could keep everybody from guessing. [`super::site_guesses`] limits the total over all edges.
    fn evict_some(&mut self, now: Instant) {
        let (mut oldest, mut has_room) = (None, false);
        for _ in 0..GUESSERS_EXAMINED {
            let Some(guesser) = self.order.pop_front() else { break };
            match self.of.get(&guesser) {
                Some(tally) if tally.pending == 0 && tally.full_at > now && oldest.is_none() => oldest = Some(guesser),
                Some(tally) if tally.pending > 0 || tally.full_at > now => self.order.push_back(guesser),
                Some(_) => has_room |= self.of.remove(&guesser).is_some(),
                None => {}
            }
        }
        match oldest {
            Some(oldest) if has_room => self.order.push_back(oldest),
            Some(oldest) => drop(self.of.remove(&oldest)),
            None => {}
        }
    }
}

#[derive(Clone, Copy)]
struct GuessTally {
    /// When the client has all its guesses again. Each wrong one delays it by [`GUESS_INTERVAL`].
    full_at: Instant,
    pending: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuessRejection {
    /// Its guesses were wrong too often; seconds to wait.
    Spent(u64),
    /// Too many clients are guessing, or this one has too many concurrent guesses.
    Crowded,
}

/// A pending guess. Dropping it counts it as wrong.
pub(super) struct PendingGuess<'g> {
    guesses: &'g ClientGuesses,
    guesser: GuesserKey,
    is_right: bool,
}

impl GuessTally {
    fn wrong(self, now: Instant) -> u32 {
        let left = self.full_at.saturating_duration_since(now);
        u32::try_from(left.as_nanos().div_ceil(GUESS_INTERVAL.as_nanos())).unwrap_or(u32::MAX)
    }

    /// Returns the time to wait at `now` for another guess, in whole seconds; `None` if there is one left.
    fn wait(self, now: Instant) -> Option<u64> {
        (self.wrong(now) >= GUESSES_PER_MINUTE).then(|| {
            let free_at = self.full_at.checked_sub(GUESS_INTERVAL * (GUESSES_PER_MINUTE - 1)).unwrap_or(self.full_at);
            free_at.saturating_duration_since(now).as_secs() + 1
        })
    }
}

impl ClientGuesses {
    pub(super) fn new() -> Self {
        Self::with_capacity(GUESSERS)
    }

    fn with_capacity(capacity: usize) -> Self {
        Self { tallies: Mutex::default(), capacity }
    }

    /// Returns the seconds that a client has to wait for another guess, if it has none left.
    pub(super) fn wait(&self, project: &ProjectId, client: IpAddr) -> Option<u64> {
        self.tallies().of.get(&(project.clone(), client.into()))?.wait(Instant::now())
    }

    pub(super) fn begin(&self, project: &ProjectId, client: IpAddr) -> Result<PendingGuess<'_>, GuessRejection> {
        let (guesser, now) = ((project.clone(), client.into()), Instant::now());
        let mut tallies = self.tallies();
        if !tallies.of.contains_key(&guesser) {
            if tallies.of.len() >= self.capacity {
                tallies.evict_some(now);
                if tallies.of.len() >= self.capacity {
                    return Err(GuessRejection::Crowded);
                }
            }
            tallies.order.push_back(guesser.clone());
        }
        let tally = tallies.of.entry(guesser.clone()).or_insert(GuessTally { full_at: now, pending: 0 });
        if let Some(seconds) = tally.wait(now) {
            return Err(GuessRejection::Spent(seconds));
        }
        // All pending guesses may be wrong.
        if tally.wrong(now).saturating_add(tally.pending) >= GUESSES_PER_MINUTE {
            return Err(GuessRejection::Crowded);
        }
        tally.pending += 1;
        drop(tallies);
        Ok(PendingGuess { guesses: self, guesser, is_right: false })
    }

    fn tallies(&self) -> MutexGuard<'_, GuessTallies> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingGuess<'_> {
    /// Marks the guess as right, so that it does not count.
    pub(super) fn was_right(mut self) {
        self.is_right = true;
    }
}

impl Drop for PendingGuess<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut tallies = self.guesses.tallies();
        let Some(tally) = tallies.of.get_mut(&self.guesser) else { return };
        tally.pending = tally.pending.saturating_sub(1);
        if !self.is_right {
            tally.full_at = tally.full_at.max(now) + GUESS_INTERVAL;
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Timestamp;

    use super::*;

    fn site() -> ProjectId {
        ProjectId::new(Timestamp::from_unix_millis(0))
    }

    /// Makes a wrong guess, if one is allowed.
    fn wrong(guesses: &ClientGuesses, site: &ProjectId, client: impl Into<IpAddr>) -> Result<(), GuessRejection> {
        guesses.begin(site, client.into()).map(drop)
    }

    #[test]
    fn each_client_and_site_has_its_own_guesses() {
        let guesses = ClientGuesses::new();
        let (site, other) = (site(), site());
        let client: IpAddr = "2001:db8::1".parse().unwrap();
        for _ in 0..GUESSES_PER_MINUTE {
            assert_eq!(guesses.wait(&site, client), None);
            assert_eq!(wrong(&guesses, &site, client), Ok(()));
        }
        let refused = wrong(&guesses, &site, client);
        assert!(matches!(refused, Err(GuessRejection::Spent(1..=60))), "{refused:?}");
        assert!(guesses.wait(&site, client).is_some_and(|seconds| (1..=60).contains(&seconds)));
        assert!(wrong(&guesses, &site, "2001:db8::2".parse::<IpAddr>().unwrap()).is_err(), "the same customer");
        assert_eq!(wrong(&guesses, &site, "2001:db8:0:1::1".parse::<IpAddr>().unwrap()), Ok(()));
        assert_eq!(wrong(&guesses, &site, [192, 0, 2, 1]), Ok(()));
        assert_eq!(wrong(&guesses, &other, client), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_come_back_one_by_one() {
        let (guesses, site, client) = (ClientGuesses::new(), site(), [192, 0, 2, 1]);
        for _ in 0..GUESSES_PER_MINUTE {
            assert_eq!(wrong(&guesses, &site, client), Ok(()));
        }
        tokio::time::advance(GUESS_INTERVAL).await;
        assert_eq!(wrong(&guesses, &site, client), Ok(()));
        assert!(wrong(&guesses, &site, client).is_err());
    }

    #[test]
    fn right_guesses_do_not_count() {
        let (guesses, site, client) = (ClientGuesses::new(), site(), IpAddr::from([192, 0, 2, 1]));
        for _ in 0..10 * GUESSES_PER_MINUTE {
            guesses.begin(&site, client).map(PendingGuess::was_right).unwrap();
        }
        guesses.tallies().evict_some(Instant::now());
        assert!(guesses.tallies().of.is_empty(), "and need no memory");
        let under_way: Vec<_> = (0..GUESSES_PER_MINUTE).map(|_| guesses.begin(&site, client).unwrap()).collect();
        assert_eq!(wrong(&guesses, &site, client), Err(GuessRejection::Crowded), "each may be wrong");
        assert_eq!(guesses.wait(&site, client), None, "nobody is said to have been wrong");
        drop(under_way);
        assert!(matches!(wrong(&guesses, &site, client), Err(GuessRejection::Spent(_))), "each was");
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_memory_makes_room_of_those_who_need_none() {
        let (guesses, site) = (ClientGuesses::with_capacity(3), site());
        for last in 0..100 {
            assert_eq!(wrong(&guesses, &site, [192, 0, 2, last]), Ok(()), "{last}");
            tokio::time::advance(GUESS_INTERVAL).await;
        }
        let tallies = guesses.tallies();
        assert!(tallies.of.len() <= 3 && tallies.order.len() <= 3);
    }

    #[test]
    fn a_full_memory_forgets_the_oldest_and_locks_nobody_out() {
        let (guesses, site) = (ClientGuesses::with_capacity(2), site());
        for last in 1..200 {
            assert_eq!(wrong(&guesses, &site, [192, 0, 2, last]), Ok(()), "{last}");
        }
        let tallies = guesses.tallies();
        assert!(tallies.of.len() <= 2 && tallies.order.len() <= 2);
        drop(tallies);
        // Entries with pending guesses are not evicted.
        let _under_way = [201, 202].map(|last| guesses.begin(&site, IpAddr::from([192, 0, 2, last])).ok().unwrap());
        assert_eq!(wrong(&guesses, &site, [192, 0, 2, 203]), Err(GuessRejection::Crowded));
    }
}
