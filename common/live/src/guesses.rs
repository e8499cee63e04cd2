//! Counts wrong guesses at the passwords of sites over all edges, per client and for all clients together.
//!
//! A guess counts from its start, so that concurrent guesses cannot exceed the limit; a right one is given back. One
//! client may use only a part of an hour's guesses, so that it cannot use them up for others. When they are used up,
//! clients that have given the same password before can continue, with a few wrong guesses a day, and every other
//! client has a few guesses a day up to a separate limit. So nobody can lock out a site's visitors by guessing. Clients
//! are stored only as keyed marks.

use std::{sync::LazyLock, time::Duration};

use redis::{ErrorKind, RedisError, Script};

use super::{Redis, leases::as_millis};

/// Starts a guess. KEYS: counts of the hour, clients that have proved the password, counts of the day. ARGV: the limits
/// of wrong guesses in an hour, in a day, in an hour of a client and in an hour of a block of clients; the limits of
/// first guesses in a day of all clients and of a client; the hour, the day; the marks of the client as proved, as
/// unproved, and of its block, if it has one; the limits of wrong guesses in a day of a proved client and of a block of
/// them. Returns the kind of the guess, and the time until guesses are available again.
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

/// Ends a guess. KEYS as above, and the number of proved clients of each block. ARGV: the kind of the guess; the
/// client's proved mark, how many clients are remembered, and for how long; its unproved mark and that of its block;
/// how many clients of a block are remembered. An empty first mark only gives the guess back.
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

/// The limits of guesses at one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuessBounds {
    /// Wrong guesses in an hour.
    pub hourly: u32,
    /// Wrong guesses in a day, excluding first guesses.
    pub daily: u32,
    /// Wrong guesses of one client in an hour.
    pub of_client: u32,
    /// Wrong guesses of one block of clients in an hour.
    pub of_block: u32,
    /// Additional first guesses of all clients together in a day.
    pub first: u32,
    /// First guesses in a day of one client, or of one block of clients.
    pub first_of_client: u32,
    /// The length of an hour, which begins with its first guess.
    pub hour: Duration,
    /// The length of a day, which begins with its first guess.
    pub day: Duration,
    /// Additional wrong guesses in a day of a client that has proved that it knows the password.
    pub of_proved: u32,
    /// Additional wrong guesses in a day of one block of such clients.
    pub of_proved_block: u32,
    /// The number of remembered clients that have proved that they know the password.
    pub proved: u32,
    /// The share of [`Self::proved`] of one block of clients, and the passwords remembered of a client without a block.
    pub proved_of_block: u32,
    /// The time for which a client is remembered as having proved the password.
    pub proved_kept: Duration,
}

/// The marks of a client at a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientMarks {
    /// The mark of a client that has proved the password, different for each password of the site.
    pub proved: String,
    /// The mark of an unproved client.
    pub client: String,
    /// The mark of its block; empty without one.
    pub block: String,
}

/// The kind of an allowed guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuessKind {
    /// A guess within the regular limits.
    Counted,
    /// A guess of a client that has given the same password before, beyond the regular limits.
    Proved,
    /// One of a client's first guesses, beyond the regular limits.
    First,
}

impl GuessKind {
    fn number(self) -> u8 {
        match self {
            Self::Counted => 1,
            Self::Proved => 2,
            Self::First => 3,
        }
    }
}

impl Redis {
    /// Starts a guess at the password of `site`. Returns its kind, or the time until guesses are available again.
    pub async fn begin_guess(
        &self,
        site: &str,
        marks: &ClientMarks,
        bounds: &GuessBounds,
    ) -> Result<Result<GuessKind, Duration>, RedisError> {
        let mut call = BEGIN.prepare_invoke();
        call.key(key(site, "counts")).key(key(site, "proved")).key(key(site, "day"));
        call.arg(bounds.hourly).arg(bounds.daily).arg(bounds.of_client).arg(bounds.of_block);
        call.arg(bounds.first).arg(bounds.first_of_client).arg(as_millis(bounds.hour)).arg(as_millis(bounds.day));
        call.arg(&marks.proved).arg(&marks.client).arg(&marks.block);
        call.arg(bounds.of_proved).arg(bounds.of_proved_block);
        let answer: (u8, u64) = call.invoke_async(&mut self.commands()).await?;
        match answer {
            (0, left) => Ok(Err(Duration::from_millis(left))),
            (1, _) => Ok(Ok(GuessKind::Counted)),
            (2, _) => Ok(Ok(GuessKind::Proved)),
            (3, _) => Ok(Ok(GuessKind::First)),
            _ => Err((ErrorKind::UnexpectedReturnType, "a guess is not one that this version knows").into()),
        }
    }

    /// Gives back a guess that was right, which proves that the client knows the password, or that was not made.
    pub async fn end_guess(
        &self,
        site: &str,
        guess: GuessKind,
        marks: &ClientMarks,
        is_right: bool,
        bounds: &GuessBounds,
    ) -> Result<(), RedisError> {
        let mut call = END.prepare_invoke();
        call.key(key(site, "counts")).key(key(site, "proved")).key(key(site, "day")).key(key(site, "proved-of"));
        call.arg(guess.number()).arg(if is_right { &marks.proved } else { "" });
        call.arg(bounds.proved).arg(as_millis(bounds.proved_kept)).arg(&marks.client).arg(&marks.block);
        call.arg(bounds.proved_of_block);
        call.invoke_async(&mut self.commands()).await
    }
}

/// Hash-tagged by site, so that in a cluster all keys of a site are on one node.
fn key(site: &str, kind: &str) -> String {
    format!("svc:gate:{{{site}}}:{kind}")
}
