//! Wrong guesses at the passwords of sites, counted for a site over all edges: of each client, and of all clients together.
//!
//! A guess counts from its beginning, so that no number of concurrent ones passes the bound; one that turns out to be right is given
//! back. One client has a part of the guesses of an hour, so that alone it uses them up for nobody. Once they are used up, those who have
//! given the same password before go on, with a few wrong ones in a day, and each of the others has a few guesses in a day, up to a bound
//! of their own: whoever guesses at a site does not lock its visitors out. Of clients there are keyed marks alone.

use std::{sync::LazyLock, time::Duration};

use redis::{ErrorKind, RedisError, Script};

use super::{Redis, leases::whole};

/// KEYS counts of the hour, clients that have proved that they know the password, counts of the day. ARGV the wrong guesses that there may
/// be in an hour, in a day, in an hour of a client, and in an hour of a block of clients; the first guesses of all clients that there may be
/// in a day, and those of a client; the hour, the day; the marks of the client as one that has proved it, as one that has not, and of its
/// block, if it is in one; the wrong guesses in a day of a client that has proved it, and of a block of them. Returns which guess it is, and
/// the time until there are guesses again.
static BEGIN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local function of(key, field) return tonumber(redis.call('HGET', key, field) or '0') end
         local function add(key, field, life)
           redis.call('HINCRBY', key, field, 1)
           if redis.call('PTTL', key) < 0 then redis.call('PEXPIRE', key, life) end
         end
         local hour, day = KEYS[1], KEYS[3]
         local client, block = ARGV[10], ARGV[11]
         local own_left = of(hour, client) < tonumber(ARGV[3]) and (block == '' or of(hour, block) < tonumber(ARGV[4]))
         local hour_left, day_left = of(hour, 'wrong') < tonumber(ARGV[1]), of(day, 'wrong') < tonumber(ARGV[2])
         if own_left and hour_left and day_left then
           add(hour, 'wrong', ARGV[7])
           add(hour, client, ARGV[7])
           if block ~= '' then add(hour, block, ARGV[7]) end
           add(day, 'wrong', ARGV[8])
           return {1, 0}
         end
         local proved, all_proved = 'proved:' .. client, 'proved:' .. block
         if redis.call('SISMEMBER', KEYS[2], ARGV[9]) == 1
           and of(day, proved) < tonumber(ARGV[12])
           and (block == '' or of(day, all_proved) < tonumber(ARGV[13])) then
           add(day, proved, ARGV[8])
           if block ~= '' then add(day, all_proved, ARGV[8]) end
           return {2, 0}
         end
         local widest = block
         if widest == '' then widest = client end
         if of(day, 'first') < tonumber(ARGV[5]) and of(day, widest) < tonumber(ARGV[6]) then
           add(day, 'first', ARGV[8])
           add(day, widest, ARGV[8])
           return {3, 0}
         end
         local waited = hour
         if not day_left then waited = day end
         return {0, math.max(redis.call('PTTL', waited), 0)}",
    )
});

/// KEYS as above, and how many of the clients that have proved it each block has. ARGV which guess it was; the client's mark that proves it,
/// how many clients are remembered, and for how long; its marks as one that has not proved it and of its block; how many clients of a block
/// are remembered. An empty first mark gives the guess back alone.
static END: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local function take(key, field)
           if tonumber(redis.call('HGET', key, field) or '0') > 0 then redis.call('HINCRBY', key, field, -1) end
         end
         local client, block = ARGV[5], ARGV[6]
         if ARGV[1] == '1' then
           take(KEYS[1], 'wrong')
           take(KEYS[3], 'wrong')
           take(KEYS[1], client)
           if block ~= '' then take(KEYS[1], block) end
         elseif ARGV[1] == '3' then
           take(KEYS[3], 'first')
           if block ~= '' then take(KEYS[3], block) else take(KEYS[3], client) end
         elseif ARGV[1] == '2' then
           take(KEYS[3], 'proved:' .. client)
           if block ~= '' then take(KEYS[3], 'proved:' .. block) end
         end
         if ARGV[2] == '' then return end
         local widest = block
         if widest == '' then widest = client end
         if redis.call('SISMEMBER', KEYS[2], ARGV[2]) == 0 then
           local of_widest = tonumber(redis.call('HGET', KEYS[4], widest) or '0')
           if redis.call('SCARD', KEYS[2]) >= tonumber(ARGV[3]) or of_widest >= tonumber(ARGV[7]) then return end
           redis.call('SADD', KEYS[2], ARGV[2])
           redis.call('HINCRBY', KEYS[4], widest, 1)
         end
         redis.call('PEXPIRE', KEYS[2], ARGV[4])
         redis.call('PEXPIRE', KEYS[4], ARGV[4])",
    )
});

/// The bounds of guesses at one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuessBounds {
    /// Wrong guesses in an hour.
    pub hourly: u32,
    /// Wrong guesses in a day, without the first ones.
    pub daily: u32,
    /// Wrong guesses of one client in an hour.
    pub of_client: u32,
    /// Wrong guesses of one block of clients in an hour.
    pub of_block: u32,
    /// First guesses in a day of all clients together, beside those.
    pub first: u32,
    /// First guesses in a day of one client, or of one block of clients.
    pub first_of_client: u32,
    /// The hour, which begins with its first guess.
    pub hour: Duration,
    /// The day, which begins with its first guess.
    pub day: Duration,
    /// Wrong guesses in a day of one client that has proved that it knows the password, beside those.
    pub of_proved: u32,
    /// Those of one block of such clients.
    pub of_proved_block: u32,
    /// Clients that are remembered to have proved that they know the password.
    pub proved: u32,
    /// Those of one block of clients, and the passwords of one client without a block.
    pub proved_of_block: u32,
    /// Time for which they are.
    pub proved_kept: Duration,
}

/// The marks of a client at a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientMarks {
    /// For what it proves: another one for each password of the site.
    pub proved: String,
    /// For what it may have without.
    pub client: String,
    /// Of its block; empty where it is in none.
    pub block: String,
}

/// A guess that may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteGuess {
    /// One of those that may be wrong.
    Counted,
    /// One of a client that has given the same password before, although too many were wrong.
    Proved,
    /// One of the first of a client, although too many were wrong.
    First,
}

impl SiteGuess {
    fn number(self) -> u8 {
        match self {
            Self::Counted => 1,
            Self::Proved => 2,
            Self::First => 3,
        }
    }
}

impl Redis {
    /// Begins a guess at the password of `site`: which guess it is, or the time until there are guesses again.
    pub async fn begin_guess(
        &self,
        site: &str,
        marks: &ClientMarks,
        bounds: &GuessBounds,
    ) -> Result<Result<SiteGuess, Duration>, RedisError> {
        let mut call = BEGIN.prepare_invoke();
        call.key(key(site, "counts")).key(key(site, "proved")).key(key(site, "day"));
        call.arg(bounds.hourly).arg(bounds.daily).arg(bounds.of_client).arg(bounds.of_block);
        call.arg(bounds.first).arg(bounds.first_of_client).arg(whole(bounds.hour)).arg(whole(bounds.day));
        call.arg(&marks.proved).arg(&marks.client).arg(&marks.block);
        call.arg(bounds.of_proved).arg(bounds.of_proved_block);
        let answer: (u8, u64) = call.invoke_async(&mut self.commands()).await?;
        match answer {
            (0, left) => Ok(Err(Duration::from_millis(left))),
            (1, _) => Ok(Ok(SiteGuess::Counted)),
            (2, _) => Ok(Ok(SiteGuess::Proved)),
            (3, _) => Ok(Ok(SiteGuess::First)),
            _ => Err((ErrorKind::UnexpectedReturnType, "a guess is not one that this version knows").into()),
        }
    }

    /// Gives a guess back that was right, by which the client has proved that it knows the password, or that was not made.
    pub async fn end_guess(
        &self,
        site: &str,
        guess: SiteGuess,
        marks: &ClientMarks,
        is_right: bool,
        bounds: &GuessBounds,
    ) -> Result<(), RedisError> {
        let mut call = END.prepare_invoke();
        call.key(key(site, "counts")).key(key(site, "proved")).key(key(site, "day")).key(key(site, "proved-of"));
        call.arg(guess.number()).arg(if is_right { &marks.proved } else { "" });
        call.arg(bounds.proved).arg(whole(bounds.proved_kept)).arg(&marks.client).arg(&marks.block);
        call.arg(bounds.proved_of_block);
        call.invoke_async(&mut self.commands()).await
    }
}

/// Hash-tagged by site: in a cluster all of a site's live together.
fn key(site: &str, kind: &str) -> String {
    format!("svc:gate:{{{site}}}:{kind}")
}
