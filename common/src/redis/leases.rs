//! Who lives: an edge says so every moment, and a Redis that has lost its memory is recognized.

use std::time::Duration;

use redis::{AsyncCommands as _, RedisError};

use super::Redis;

/// How often an edge renews its lease.
pub const RENEW_EVERY: Duration = Duration::from_millis(500);
/// How long a lease lasts.
const LEASE: Duration = Duration::from_secs(5);
/// How long an edge must have been without a lease, as seen by whoever settles its accounts. Redis may have been away
/// and just come back; the edge gets time to say so.
const GONE: Duration = Duration::from_secs(5);
/// How long it is remembered since when.
const GONE_KEPT: Duration = Duration::from_hours(24);

const EPOCH: &str = "svc:ai:epoch";

/// Which memory of Redis this is. Another one after a restart or a flush: what was written before may be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    run: String,
    number: u64,
    /// How long ago Redis was found empty.
    pub age: Duration,
}

impl Epoch {
    /// Whether nothing can have been lost between the two.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.run, self.number) == (&other.run, other.number)
    }
}

impl Redis {
    /// Renews the lease of `edge`, and says which memory of Redis it stands in.
    pub async fn renew_lease(&self, edge: &str) -> Result<Epoch, RedisError> {
        let mut pipe = redis::pipe();
        pipe.cmd("SET").arg(lease_key(edge)).arg(1).arg("PX").arg(whole(LEASE)).ignore();
        pipe.cmd("DEL").arg(gone_key(edge)).ignore();
        epoch(&mut pipe);
        let answer: EpochAnswer = pipe.query_async(&mut self.commands()).await?;
        Ok(answer.into())
    }

    /// Which memory of Redis this is now.
    pub async fn epoch(&self) -> Result<Epoch, RedisError> {
        let mut pipe = redis::pipe();
        epoch(&mut pipe);
        let answer: EpochAnswer = pipe.query_async(&mut self.commands()).await?;
        Ok(answer.into())
    }

    /// Gives the lease up: the edge ends, and owes nothing.
    pub async fn end_lease(&self, edge: &str) -> Result<(), RedisError> {
        self.commands().del(lease_key(edge)).await
    }

    /// Whether `edge` has been without a lease for so long that it will not come back.
    pub async fn is_gone(&self, edge: &str) -> Result<bool, RedisError> {
        let mut pipe = redis::pipe();
        pipe.cmd("EXISTS").arg(lease_key(edge));
        pipe.cmd("TIME");
        let (lives, time): (bool, (u64, u64)) = pipe.query_async(&mut self.commands()).await?;
        if lives {
            return Ok(false);
        }
        let now = time.0 * 1000 + time.1 / 1000;
        let mut pipe = redis::pipe();
        pipe.cmd("SET").arg(gone_key(edge)).arg(now).arg("NX").arg("PX").arg(whole(GONE_KEPT)).ignore();
        pipe.cmd("GET").arg(gone_key(edge));
        let (since,): (u64,) = pipe.query_async(&mut self.commands()).await?;
        Ok(Duration::from_millis(now.saturating_sub(since)) >= GONE)
    }
}

type EpochAnswer = (String, (u64, u64), String);

/// The first to come to an empty Redis writes down when that was.
fn epoch(pipe: &mut redis::Pipeline) {
    pipe.cmd("EVAL")
        .arg(
            "local time = redis.call('TIME')
             redis.call('SET', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000), 'NX')
             return redis.call('GET', KEYS[1])",
        )
        .arg(1)
        .arg(EPOCH);
    pipe.cmd("TIME");
    pipe.cmd("INFO").arg("server");
}

impl From<EpochAnswer> for Epoch {
    fn from((number, time, server): EpochAnswer) -> Self {
        let run = server.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default().trim().to_owned();
        let number = number.parse().unwrap_or(0);
        let now = time.0 * 1000 + time.1 / 1000;
        Self { run, number, age: Duration::from_millis(now.saturating_sub(number)) }
    }
}

fn lease_key(edge: &str) -> String {
    format!("svc:ai:edge:{edge}")
}

fn gone_key(edge: &str) -> String {
    format!("svc:ai:gone:{edge}")
}

fn whole(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
