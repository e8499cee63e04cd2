//! Appends this process's events to the Redis stream.

use std::{iter, time::Duration};

use live::{Redis, events::StreamMessage};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::LossFlag;

const BATCH: usize = 256;
/// The interval of checks for an unreported loss while nothing else is sent.
const LOOK_FOR_LOSS: Duration = Duration::from_secs(1);

/// Sends events in queue order until `stop`, then those still queued. After a loss, the loss is reported before
/// anything else is sent.
pub(super) async fn send(
    mut inbox: mpsc::Receiver<StreamMessage>,
    lost: &LossFlag,
    redis: &Redis,
    stop: &CancellationToken,
) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut is_away = false;
    loop {
        // After the timeout, a loss may be all there is to report. `stop` is checked only here: a received batch is
        // either sent or counted as lost.
        let receiving = tokio::time::timeout(LOOK_FOR_LOSS, inbox.recv_many(&mut batch, BATCH));
        let is_last = matches!(stop.run_until_cancelled(receiving).await, None | Some(Ok(0)));
        if is_last {
            inbox.close();
            batch.extend(iter::from_fn(|| inbox.try_recv().ok()));
        }
        let had_loss = lost.take();
        if had_loss {
            batch.insert(0, StreamMessage::Lost);
        }
        if !batch.is_empty() {
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
        if is_last {
            return;
        }
    }
}
