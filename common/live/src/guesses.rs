//! Wrong guesses at the passwords of sites, counted for a site over all edges and all clients.
//!
//! A guess counts from its beginning, so that no number of concurrent ones passes the bound; one that turns out to be right is given
//! back. Once there are too many, those who have given the password before go on, and of the others each client has a first guess,
//! up to a bound of its own: whoever guesses at a site does not lock its visitors out. Of clients there are keyed marks alone.

use std::{sync::LazyLock, time::Duration};

use redis::{ErrorKind, RedisError, Script};

use super::{Redis, leases::whole};

/// KEYS counts, clients that have proved that they know the password, clients that have had a first guess. ARGV the wrong guesses and
/// the first guesses that there may be in a window, the window, the time for which a first guess is remembered, the marks of the
/// client as one that has proved it and as one that has not. Returns which guess it is, and the time until the window ends.
static BEGIN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local wrong = tonumber(redis.call('HGET', KEYS[1], 'wrong') or '0')
         local left = redis.call('PTTL', KEYS[1])
         if wrong < tonumber(ARGV[1]) then
           redis.call('HINCRBY', KEYS[1], 'wrong', 1)
           if left < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
           return {1, 0}
         end
         if redis.call('SISMEMBER', KEYS[2], ARGV[5]) == 1 then return {2, 0} end
         local first = tonumber(redis.call('HGET', KEYS[1], 'first') or '0')
         if first < tonumber(ARGV[2]) and redis.call('PFADD', KEYS[3], ARGV[6]) == 1 then
           if redis.call('PTTL', KEYS[3]) < 0 then redis.call('PEXPIRE', KEYS[3], ARGV[4]) end
           redis.call('HINCRBY', KEYS[1], 'first', 1)
           return {3, 0}
         end
         return {0, math.max(left, 0)}",
    )
});

/// KEYS counts, clients that have proved that they know the password. ARGV which guess it was, the client's mark, how many clients are
/// remembered, and for how long. An empty mark gives the guess back alone.
static END: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if ARGV[1] == '1' and tonumber(redis.call('HGET', KEYS[1], 'wrong') or '0') > 0 then
           redis.call('HINCRBY', KEYS[1], 'wrong', -1)
         end
         if ARGV[2] ~= '' and redis.call('SCARD', KEYS[2]) < tonumber(ARGV[3]) then
           redis.call('SADD', KEYS[2], ARGV[2])
           redis.call('PEXPIRE', KEYS[2], ARGV[4])
         end",
    )
});

/// The bounds of guesses at one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuessBounds {
    /// Wrong guesses in a window.
    pub wrong: u32,
    /// First guesses of clients in a window, once there are as many wrong ones.
    pub first: u32,
    /// The window, which begins with its first guess.
    pub window: Duration,
    /// Time for which it is remembered that a client has had its first guess.
    pub first_kept: Duration,
    /// Clients that are remembered to have proved that they know the password.
    pub proved: u32,
    /// Time for which they are.
    pub proved_kept: Duration,
}

/// A guess that may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteGuess {
    /// One of those that may be wrong.
    Counted,
    /// One of a client that has given the password before.
    Proved,
    /// The first one of a client, although too many were wrong.
    First,
}

impl Redis {
    /// Begins a guess at the password of `site`: which guess it is, or the time until there are guesses again. The client's marks are one
    /// for what it proves, and one for what it may have without.
    pub async fn begin_guess(
        &self,
        site: &str,
        (proved, mark): (&str, &str),
        bounds: &GuessBounds,
    ) -> Result<Result<SiteGuess, Duration>, RedisError> {
        let mut call = BEGIN.prepare_invoke();
        call.key(key(site, "counts")).key(key(site, "proved")).key(key(site, "first"));
        call.arg(bounds.wrong).arg(bounds.first).arg(whole(bounds.window)).arg(whole(bounds.first_kept));
        let answer: (u8, u64) = call.arg(proved).arg(mark).invoke_async(&mut self.commands()).await?;
        match answer {
            (0, left) => Ok(Err(Duration::from_millis(left))),
            (1, _) => Ok(Ok(SiteGuess::Counted)),
            (2, _) => Ok(Ok(SiteGuess::Proved)),
            (3, _) => Ok(Ok(SiteGuess::First)),
            _ => Err((ErrorKind::UnexpectedReturnType, "a guess is not one that this version knows").into()),
        }
    }

    /// Gives a guess back that was right, by which the client has `proved` that it knows the password, or that was not made.
    pub async fn end_guess(
        &self,
        site: &str,
        guess: SiteGuess,
        proved: Option<&str>,
        bounds: &GuessBounds,
    ) -> Result<(), RedisError> {
        let counted = u8::from(guess == SiteGuess::Counted);
        let mut call = END.prepare_invoke();
        call.key(key(site, "counts")).key(key(site, "proved"));
        call.arg(counted).arg(proved.unwrap_or_default()).arg(bounds.proved).arg(whole(bounds.proved_kept));
        call.invoke_async(&mut self.commands()).await
    }
}

/// Hash-tagged by site: in a cluster all of a site's live together.
fn key(site: &str, kind: &str) -> String {
    format!("svc:gate:{{{site}}}:{kind}")
}
