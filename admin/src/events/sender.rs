//! Appends this process's events to the Redis stream.

use std::time::Duration;

use live::{Redis, events::Message};
use tokio::sync::mpsc;

use super::Lost;

/// Most events sent together.
const BATCH: usize = 256;
/// Interval at which it is looked whether a loss is to be told of, when nothing else is sent.
const LOOK_FOR_LOSS: Duration = Duration::from_secs(1);

/// Sends events in the order of the queue. After some were lost, the stream is told before anything else.
pub(super) async fn send(inbox: &mut mpsc::Receiver<Message>, lost: &Lost, redis: &Redis) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut is_away = false;
    loop {
        // When the time is over, a loss may be all that there is to tell.
        if let Ok(0) = tokio::time::timeout(LOOK_FOR_LOSS, inbox.recv_many(&mut batch, BATCH)).await {
            return;
        }
        let had_loss = lost.take();
        if had_loss {
            batch.insert(0, Message::Lost);
        }
        if batch.is_empty() {
            continue;
        }
        match redis.send_events(&batch).await {
            Ok(()) => is_away = false,
            Err(error) => {
                // One line per outage.
                if !is_away {
                    tracing::warn!(%error, "events are not sent; those who follow them are told to look again later");
                }
                is_away = true;
                lost.record((batch.len() - usize::from(had_loss)) as u64);
            }
        }
        batch.clear();
    }
}

/// Sends what waits when the program stops, once.
pub(super) async fn send_rest(mut inbox: mpsc::Receiver<Message>, redis: &Redis) {
    inbox.close();
    let mut rest = Vec::new();
    while let Ok(message) = inbox.try_recv() {
        rest.push(message);
    }
    if !rest.is_empty()
        && let Err(error) = redis.send_events(&rest).await
    {
        tracing::warn!(%error, events = rest.len(), "the last events were not sent");
    }
}
