//! How often anybody may guess wrong at one site's password, over all edges. Beside it stands what one client may
//! ([`super::guesses`]).
//!
//! The count is in Redis. Where Redis does not answer, each edge keeps the same bound for itself.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{ProjectId, site::Site};
use fairness::Client;
use hmac::{Hmac, Mac as _};
use live::{
    Redis,
    guesses::{GuessBounds, SiteGuess},
};
use sha2::Sha256;
use tokio::time::{Instant, timeout};

use super::cookie::keyed;
use crate::limits;

/// Bytes of a client's mark.
const MARK_LEN: usize = 12;

/// The bounds of guesses at one site.
const BOUNDS: GuessBounds = GuessBounds {
    wrong: limits::SITE_GUESSES,
    first: limits::SITE_FIRST_GUESSES,
    window: limits::SITE_GUESSES_EVERY,
    first_kept: limits::SITE_FIRST_KEPT,
    proved: limits::SITE_PROVED,
    proved_kept: limits::SITE_PROVED_KEPT,
};

/// Counts guesses at sites.
pub(super) struct SiteGuesses {
    redis: Option<Redis>,
    mac: Hmac<Sha256>,
    /// Guesses while Redis does not answer, and when their window began.
    alone: Mutex<HashMap<ProjectId, (Instant, u32)>>,
}

/// A guess that may be made. Dropped before it is [made](Self::made), it is given back.
pub(super) struct Begun {
    redis: Option<Redis>,
    site: ProjectId,
    guess: SiteGuess,
    proved: String,
    is_made: bool,
}

impl SiteGuesses {
    /// Nothing is counted yet. Without `redis` this edge counts for itself.
    pub(super) fn new(key: &[u8; 32], redis: Option<Redis>) -> Self {
        Self { redis, mac: keyed(key, b"guesser\0"), alone: Mutex::default() }
    }

    /// Begins a guess at the password of `site`; fails with the time until there are guesses again.
    pub(super) async fn begin(&self, site: &Site, client: Client) -> Result<Begun, Duration> {
        let proved = self.mark(site, site.access_version, client);
        let begun =
            |redis, guess| Begun { redis, site: site.project.clone(), guess, proved: proved.clone(), is_made: false };
        if let Some(redis) = &self.redis {
            // A customer with many networks has one first guess.
            let mark = self.mark(site, 0, client.widest());
            let asking = redis.begin_guess(site.project.as_str(), (&proved, &mark), &BOUNDS);
            match timeout(limits::SITE_GUESS_WAIT, asking).await {
                Ok(Ok(guess)) => return guess.map(|guess| begun(Some(redis.clone()), guess)),
                Ok(Err(error)) => tracing::debug!(%error, "guesses are counted by this edge alone"),
                Err(_) => tracing::debug!("guesses are counted by this edge alone: Redis does not answer"),
            }
        }
        self.begin_alone(&site.project).map(|()| begun(None, SiteGuess::Counted))
    }

    fn begin_alone(&self, project: &ProjectId) -> Result<(), Duration> {
        let now = Instant::now();
        let mut alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |since: &Instant| now.saturating_duration_since(*since) >= limits::SITE_GUESSES_EVERY;
        if alone.len() >= limits::GUESSED_SITES && !alone.contains_key(project) {
            alone.retain(|_, (since, _)| !is_over(since));
            if alone.len() >= limits::GUESSED_SITES {
                return Err(limits::GUESS_INTERVAL);
            }
        }
        let (since, count) = alone.entry(project.clone()).or_insert((now, 0));
        if is_over(since) {
            (*since, *count) = (now, 0);
        }
        if *count >= limits::SITE_GUESSES {
            return Err(limits::SITE_GUESSES_EVERY.saturating_sub(now.saturating_duration_since(*since)));
        }
        *count += 1;
        Ok(())
    }

    /// What stands for a client: nobody finds its address by it who has not the key.
    fn mark(&self, site: &Site, version: i64, client: Client) -> String {
        let mut mac = self.mac.clone();
        mac.update(site.project.as_str().as_bytes());
        mac.update(&version.to_be_bytes());
        mac.update(client.to_string().as_bytes());
        URL_SAFE_NO_PAD.encode(&mac.finalize().into_bytes()[..MARK_LEN])
    }
}

impl Begun {
    /// The guess is being made: it was wrong unless it is said to be [right](Self::was_right).
    pub(super) fn made(mut self) -> Self {
        self.is_made = true;
        self
    }

    /// The guess was right: it does not count, and its client may guess from now on whatever others do.
    pub(super) fn was_right(mut self) {
        let proved = std::mem::take(&mut self.proved);
        self.is_made = true;
        self.give_back(Some(proved));
    }

    fn give_back(&mut self, proved: Option<String>) {
        let Some(redis) = self.redis.take() else { return };
        let (site, guess) = (self.site.clone(), self.guess);
        tokio::spawn(async move {
            let giving_back = redis.end_guess(site.as_str(), guess, proved.as_deref(), &BOUNDS);
            if let Ok(Err(error)) = timeout(limits::SITE_GUESS_WAIT, giving_back).await {
                tracing::debug!(%error, "a guess was not given back");
            }
        });
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.is_made {
            self.give_back(None);
        }
    }
}
