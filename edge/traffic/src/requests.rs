//! Requests over Redis for pending traffic of this edge, sent by admin when somebody opens statistics.
//!
//! A request is answered once Postgres has everything counted before it arrived. It waits for the next collection,
//! belongs to one, and then waits until the collected traffic is sent.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use live::{
    Redis, RedisError,
    traffic::{TRAFFIC_CHANNEL, TrafficRequest},
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

/// The requests that are not answered yet.
pub(super) struct TrafficRequests {
    redis: Redis,
    /// The id of this edge, sent as the reply.
    edge: String,
    stages: Mutex<RequestStages>,
    arrived: Notify,
}

#[derive(Default)]
struct RequestStages {
    /// Arrived after the last collection began.
    waiting: Vec<TrafficRequest>,
    /// Arrived before the collection in progress.
    collecting: Vec<TrafficRequest>,
    /// Their traffic is in the outbox.
    collected: Vec<TrafficRequest>,
}

impl TrafficRequests {
    /// Creates an empty list of the requests that arrive over `redis` for `edge`.
    pub(super) fn new(redis: Redis, edge: String) -> Self {
        Self { redis, edge, stages: Mutex::default(), arrived: Notify::new() }
    }

    /// Listens for requests, for as long as it is polled.
    pub(super) async fn listen(&self) {
        loop {
            // The subscriber of changes logs Redis failures. Traffic is also sent on schedule, so it is not lost.
            let _ = self.listen_once().await;
            sleep(limits::TRAFFIC_REQUEST_RETRY).await;
        }
    }

    async fn listen_once(&self) -> Result<(), RedisError> {
        let mut subscription = match timeout(limits::SUBSCRIBE_WAIT, self.redis.subscriber()).await {
            Ok(subscription) => subscription?,
            Err(_) => return Ok(()),
        };
        subscription.subscribe(TRAFFIC_CHANNEL).await?;
        let mut messages = subscription.into_on_message();
        while let Some(message) = messages.next().await {
            let Ok(request) = serde_json::from_slice::<TrafficRequest>(message.get_payload_bytes()) else { continue };
            if self.stages().push(request) {
                self.arrived.notify_one();
            }
            // Further requests queue in Redis in the meantime and then share one collection.
            sleep(limits::TRAFFIC_REQUEST_PAUSE).await;
        }
        Ok(())
    }

    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    pub(super) fn begin(&self) {
        let mut stages = self.stages();
        let RequestStages { waiting, collecting, .. } = &mut *stages;
        collecting.append(waiting);
    }

    pub(super) fn collected(&self) {
        let mut stages = self.stages();
        let RequestStages { collecting, collected, .. } = &mut *stages;
        collected.append(collecting);
    }

    /// Takes the requests whose traffic is in the outbox.
    pub(super) fn take_collected(&self) -> Vec<TrafficRequest> {
        std::mem::take(&mut self.stages().collected)
    }

    pub(super) async fn reply(&self, requests: Vec<TrafficRequest>) {
        for request in requests {
            if let Err(error) = self.redis.publish(&request.reply_channel(), &self.edge).await {
                tracing::debug!(%error, "a request for traffic gets no answer");
            }
        }
    }

    fn stages(&self) -> MutexGuard<'_, RequestStages> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestStages {
    /// Queues a request. Returns `false` if too many are queued.
    fn push(&mut self, request: TrafficRequest) -> bool {
        let has_room = self.waiting.len() + self.collecting.len() + self.collected.len() < limits::TRAFFIC_REQUESTS;
        if has_room {
            self.waiting.push(request);
        }
        has_room
    }
}
