//! Reads the Redis stream over one connection for all clients of this process.

use std::time::Duration;

use live::{
    Redis, RedisError,
    events::{EventId, EventReader, StreamMessage},
};

use super::hub::{EventHub, KEPT};

const RECONNECT: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(2);

/// Reads for the program's life, and reconnects after each failure of Redis.
pub(super) async fn read(hub: &EventHub, redis: &Redis) {
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

async fn read_until_fault(hub: &EventHub, redis: &Redis) -> Result<(), RedisError> {
    let mut reader = redis.event_reader().await?;
    let mut after = match hub.newest() {
        Some(newest) if reader.contains(newest).await? => newest,
        _ => load_stream(hub, redis, &mut reader).await?,
    };
    loop {
        let sent = reader.next(after).await?;
        // Checked after the read: an entry that exists now existed when the response was made.
        if !reader.contains(after).await? {
            tracing::warn!(
                "Redis has lost events, or there were too many; those who follow them are told to look again"
            );
            after = load_stream(hub, redis, &mut reader).await?;
            continue;
        }
        for sent in sent {
            after = sent.id;
            hub.push(sent);
        }
    }
}

/// Fills the hub with the content of the stream, and returns the id of the newest entry. An empty stream receives a
/// first entry, so that its loss can be detected.
async fn load_stream(hub: &EventHub, redis: &Redis, reader: &mut EventReader) -> Result<EventId, RedisError> {
    loop {
        let latest = reader.latest(KEPT).await?;
        if let Some(newest) = latest.last().map(|sent| sent.id) {
            hub.restart(latest);
            return Ok(newest);
        }
        redis.send_events(&[StreamMessage::Began]).await?;
    }
}
