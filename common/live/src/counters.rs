//! Expiring counters for rate limits.

use std::{sync::LazyLock, time::Duration};

use redis::{RedisError, Script};

use super::Redis;

/// Counts events in a window that begins with its first event. Atomic, so that no counter is left without an expiry.
static COUNT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local count = redis.call('INCRBY', KEYS[1], ARGV[2])
         local left = redis.call('PTTL', KEYS[1])
         if left < 0 then
           redis.call('PEXPIRE', KEYS[1], ARGV[1])
           left = tonumber(ARGV[1])
         end
         return {count, left}",
    )
});

/// Takes events back, if the window has not ended.
static UNCOUNT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local count = tonumber(redis.call('GET', KEYS[1]) or '0')
         if count > 0 then redis.call('DECRBY', KEYS[1], math.min(count, tonumber(ARGV[1]))) end",
    )
});

/// The state of a counter in its current window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowCount {
    /// The number of events in the window, including the latest.
    pub events: u64,
    /// The time until the window ends and the counter starts again.
    pub resets_in: Duration,
}

impl Redis {
    /// Counts `events` of `subject` in the counter `name`.
    pub async fn count(
        &self,
        name: &str,
        subject: &str,
        window: Duration,
        events: u32,
    ) -> Result<WindowCount, RedisError> {
        let millis = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        let (events, left): (u64, u64) =
            COUNT.key(key(name, subject)).arg(millis).arg(events).invoke_async(&mut self.commands()).await?;
        Ok(WindowCount { events, resets_in: Duration::from_millis(left) })
    }

    /// Takes `events` of `subject` back from the counter `name`.
    pub async fn uncount(&self, name: &str, subject: &str, events: u32) -> Result<(), RedisError> {
        UNCOUNT.key(key(name, subject)).arg(events).invoke_async(&mut self.commands()).await
    }
}

/// Hash-tagged by subject, so that in a cluster all counters of one subject are on one node.
fn key(name: &str, subject: &str) -> String {
    format!("svc:count:{name}:{{{subject}}}")
}
