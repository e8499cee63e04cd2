//! Requests for the traffic that this edge still holds: somebody opens statistics, and admin asks for it over Redis.
//!
//! A request is answered once Postgres has everything that was counted when it came. It passes three places: it waits for the next
//! collection, is part of one, and then waits until what was collected is sent.

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

use crate::limits;

/// The requests that are not answered yet.
pub(super) struct Requests {
    redis: Redis,
    /// The id of this edge, which is its answer.
    edge: String,
    stages: Mutex<Stages>,
    arrived: Notify,
}

#[derive(Default)]
struct Stages {
    /// Came after the last collection began.
    waiting: Vec<TrafficRequest>,
    /// Came before the collection that is under way.
    collecting: Vec<TrafficRequest>,
    /// What they asked for is in the outbox.
    collected: Vec<TrafficRequest>,
}

impl Requests {
    /// Creates the list of the requests that come over `redis` to `edge`; none yet.
    pub(super) fn new(redis: Redis, edge: String) -> Self {
        Self { redis, edge, stages: Mutex::default(), arrived: Notify::new() }
    }

    /// Listens for requests, for as long as it is polled.
    pub(super) async fn listen(&self) {
        loop {
            // That Redis is away is logged where changes are followed. Nothing is lost: traffic is sent in time anyway.
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
            // Others queue at Redis meanwhile, and are then part of one collection.
            sleep(limits::TRAFFIC_REQUEST_PAUSE).await;
        }
        Ok(())
    }

    /// Completes once a request has come since the last call.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Notes that a collection begins.
    pub(super) fn begin(&self) {
        let mut stages = self.stages();
        let Stages { waiting, collecting, .. } = &mut *stages;
        collecting.append(waiting);
    }

    /// Notes that the collection has ended.
    pub(super) fn collected(&self) {
        let mut stages = self.stages();
        let Stages { collecting, collected, .. } = &mut *stages;
        collected.append(collecting);
    }

    /// Takes the requests whose traffic is in the outbox.
    pub(super) fn take_collected(&self) -> Vec<TrafficRequest> {
        std::mem::take(&mut self.stages().collected)
    }

    /// Tells admin that Postgres has what was asked for.
    pub(super) async fn answer(&self, requests: Vec<TrafficRequest>) {
        for request in requests {
            if let Err(error) = self.redis.publish(&request.reply_channel(), &self.edge).await {
                tracing::debug!(%error, "a request for traffic gets no answer");
            }
        }
    }

    fn stages(&self) -> MutexGuard<'_, Stages> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stages {
    /// Lets a request wait; returns false when too many do.
    fn push(&mut self, request: TrafficRequest) -> bool {
        let has_room = self.waiting.len() + self.collecting.len() + self.collected.len() < limits::TRAFFIC_REQUESTS;
        if has_room {
            self.waiting.push(request);
        }
        has_room
    }
}
