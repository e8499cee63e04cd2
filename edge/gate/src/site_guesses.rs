//! Limits how often all clients together may guess wrong at one site's password, over all edges. [`super::guesses`]
//! limits each client.
//!
//! The count is in Redis. While Redis is unreachable, each edge applies the same limit alone.

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
    guesses::{ClientMarks, GuessBounds, GuessKind},
};
use sha2::Sha256;
use tokio::time::{Instant, timeout};

use super::cookie::keyed_mac;

const MARK_LEN: usize = 12;

const BOUNDS: GuessBounds = GuessBounds {
    hourly: limits::SITE_GUESSES,
    daily: limits::SITE_GUESSES_A_DAY,
    of_client: limits::SITE_GUESSES_OF_CLIENT,
    of_block: limits::SITE_GUESSES_OF_BLOCK,
    first: limits::SITE_FIRST_GUESSES,
    first_of_client: limits::SITE_FIRST_GUESSES_OF_CLIENT,
    hour: limits::SITE_GUESSES_EVERY,
    day: limits::SITE_GUESSES_DAY,
    of_proved: limits::SITE_PROVED_GUESSES,
    of_proved_block: limits::SITE_PROVED_GUESSES_OF_BLOCK,
    proved: limits::SITE_PROVED,
    proved_of_block: limits::SITE_PROVED_OF_BLOCK,
    proved_kept: limits::SITE_PROVED_KEPT,
};

pub(super) struct SiteGuesses {
    redis: Option<Redis>,
    mac: Hmac<Sha256>,
    alone: Mutex<HashMap<ProjectId, LocalGuesses>>,
}

struct LocalGuesses {
    since: Instant,
    all: u32,
    of: HashMap<Client, u32>,
}

/// A permitted guess. If it is dropped before it is [made](Self::mark_made), it is returned.
pub(super) struct PermittedGuess {
    redis: Option<Redis>,
    site: ProjectId,
    guess: GuessKind,
    marks: ClientMarks,
    is_made: bool,
}

impl SiteGuesses {
    /// Creates an empty counter. Without `redis` this edge counts alone.
    pub(super) fn new(key: &[u8; 32], redis: Option<Redis>) -> Self {
        Self { redis, mac: keyed_mac(key, b"guesser\0"), alone: Mutex::default() }
    }

    /// Starts a guess at the password of `site` with this `hash`, of several that it may have; `None` for an unknown
    /// name. Fails with the time until guesses are available again.
    pub(super) async fn begin(
        &self,
        site: &Site,
        hash: Option<&str>,
        client: Client,
    ) -> Result<PermittedGuess, Duration> {
        let marks = ClientMarks {
            // Knowing one of a site's passwords does not prove knowledge of another.
            proved: self.client_mark(site, site.access_version, hash.unwrap_or_default(), client),
            client: self.client_mark(site, 0, "", client),
            block: client.block().map(|block| self.client_mark(site, 0, "", block)).unwrap_or_default(),
        };
        if let Some(redis) = &self.redis {
            let asking = redis.begin_guess(site.project.as_str(), &marks, &BOUNDS);
            match timeout(limits::SITE_GUESS_WAIT, asking).await {
                Ok(Ok(guess)) => {
                    return guess.map(|guess| PermittedGuess::new(site, Some(redis.clone()), guess, marks));
                }
                Ok(Err(error)) => tracing::debug!(%error, "guesses are counted by this edge alone"),
                Err(_) => tracing::debug!("guesses are counted by this edge alone: Redis does not answer"),
            }
        }
        self.begin_alone(&site.project, client).map(|()| PermittedGuess::new(site, None, GuessKind::Counted, marks))
    }

    fn begin_alone(&self, project: &ProjectId, client: Client) -> Result<(), Duration> {
        let now = Instant::now();
        let mut alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |since: Instant| now.saturating_duration_since(since) >= limits::SITE_GUESSES_EVERY;
        if alone.len() >= limits::GUESSED_SITES && !alone.contains_key(project) {
            alone.retain(|_, guesses| !is_over(guesses.since));
            if alone.len() >= limits::GUESSED_SITES {
                return Err(limits::GUESS_INTERVAL);
            }
        }
        let begin = || LocalGuesses { since: now, all: 0, of: HashMap::new() };
        let guesses = alone.entry(project.clone()).or_insert_with(begin);
        if is_over(guesses.since) {
            *guesses = begin();
        }
        let block = client.block().map(|block| (block, limits::SITE_GUESSES_OF_BLOCK));
        let bounds = [Some((client, limits::SITE_GUESSES_OF_CLIENT)), block];
        let has_all = |&(of, most): &(Client, u32)| guesses.of.get(&of).is_some_and(|count| *count >= most);
        if guesses.all >= limits::SITE_GUESSES || bounds.iter().flatten().any(has_all) {
            return Err(limits::SITE_GUESSES_EVERY.saturating_sub(now.saturating_duration_since(guesses.since)));
        }
        guesses.all += 1;
        for (of, _) in bounds.into_iter().flatten() {
            *guesses.of.entry(of).or_default() += 1;
        }
        Ok(())
    }

    /// Returns a client's pseudonym, from which its address cannot be found without the key.
    fn client_mark(&self, site: &Site, version: i64, hash: &str, client: Client) -> String {
        let mut mac = self.mac.clone();
        mac.update(site.project.as_str().as_bytes());
        mac.update(&version.to_be_bytes());
        mac.update(client.to_string().as_bytes());
        // An address has no zero byte.
        mac.update(b"\0");
        mac.update(hash.as_bytes());
        URL_SAFE_NO_PAD.encode(&mac.finalize().into_bytes()[..MARK_LEN])
    }
}

impl PermittedGuess {
    fn new(site: &Site, redis: Option<Redis>, guess: GuessKind, marks: ClientMarks) -> Self {
        Self { redis, site: site.project.clone(), guess, marks, is_made: false }
    }

    /// Marks the guess as made: it counts as wrong unless it [was right](Self::was_right).
    pub(super) fn mark_made(mut self) -> Self {
        self.is_made = true;
        self
    }

    /// Marks the guess as right: it does not count, and its client may from now on guess regardless of other clients.
    pub(super) fn was_right(mut self) {
        self.is_made = true;
        self.give_back(true);
    }

    fn give_back(&mut self, is_right: bool) {
        let Some(redis) = self.redis.take() else { return };
        let (site, guess, marks) = (self.site.clone(), self.guess, self.marks.clone());
        tokio::spawn(async move {
            let giving_back = redis.end_guess(site.as_str(), guess, &marks, is_right, &BOUNDS);
            if let Ok(Err(error)) = timeout(limits::SITE_GUESS_WAIT, giving_back).await {
                tracing::debug!(%error, "a guess was not given back");
            }
        });
    }
}

impl Drop for PermittedGuess {
    fn drop(&mut self) {
        if !self.is_made {
            self.give_back(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use domain::Timestamp;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_client_uses_the_guesses_of_all_up_alone() {
        let guesses = SiteGuesses::new(&[1; 32], None);
        let site = ProjectId::new(Timestamp::from_unix_millis(0));
        let client = |address: String| Client::from(address.parse::<IpAddr>().unwrap());
        let wrong = |client| (0..1_000).take_while(|_| guesses.begin_alone(&site, client).is_ok()).count();
        let of_client = limits::SITE_GUESSES_OF_CLIENT as usize;
        assert_eq!(wrong(client("192.0.2.1".to_owned())), of_client);
        let of_block: usize = (0..10).map(|network| wrong(client(format!("2001:db8:7:{network}::1")))).sum();
        assert_eq!(of_block, limits::SITE_GUESSES_OF_BLOCK as usize);
        let others: usize = (2..100).map(|last| wrong(client(format!("192.0.2.{last}")))).sum();
        assert_eq!(others + of_client + of_block, limits::SITE_GUESSES as usize);
        let newcomer = client("198.51.100.1".to_owned());
        assert!(guesses.begin_alone(&site, newcomer).is_err());
        tokio::time::advance(limits::SITE_GUESSES_EVERY).await;
        assert_eq!(wrong(newcomer), of_client);
    }
}
