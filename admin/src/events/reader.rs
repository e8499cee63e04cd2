//! Reads the Redis stream: one connection for all clients of the process.

use std::time::Duration;

use live::{
    Redis, RedisError,
    events::{EventId, EventReader, Message},
};

use super::hub::{Hub, KEPT};

/// Pauses between attempts to read again, doubled up to the longest.
const RECONNECT: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(2);

/// Reads for the program's life, and again after each fault of Redis.
pub(super) async fn read(hub: &Hub, redis: &Redis) {
    let mut pause = *RECONNECT.start();
    loop {
        let before = hub.newest();
        if let Err(error) = read_until_fault(hub, redis).await {
            if hub.newest() != before {
                pause = *RECONNECT.start();
            }
            // One line per outage.
            if pause == *RECONNECT.start() {
                tracing::warn!(%error, "events cannot be read; those who follow them are told to look again later");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(*RECONNECT.end());
    }
}

async fn read_until_fault(hub: &Hub, redis: &Redis) -> Result<(), RedisError> {
    let mut reader = redis.event_reader().await?;
    let mut after = match hub.newest() {
        Some(newest) if reader.has(newest).await? => newest,
        _ => begin(hub, redis, &mut reader).await?,
    };
    loop {
        let sent = reader.next(after).await?;
        // Asked after the answer: what was there then, was there when the answer was made.
        if !reader.has(after).await? {
            tracing::warn!(
                "Redis has lost events, or there were too many; those who follow them are told to look again"
            );
            after = begin(hub, redis, &mut reader).await?;
            continue;
        }
        for sent in sent {
            after = sent.id;
            hub.push(sent);
        }
    }
}

/// Fills the hub with what the stream has, and returns the id of the newest entry. A stream that is empty gets its first,
/// so that its loss shows.
async fn begin(hub: &Hub, redis: &Redis, reader: &mut EventReader) -> Result<EventId, RedisError> {
    loop {
        let latest = reader.latest(KEPT).await?;
        if let Some(newest) = latest.last().map(|sent| sent.id) {
            hub.restart(latest);
            return Ok(newest);
        }
        redis.send_events(&[Message::Began]).await?;
    }
}
