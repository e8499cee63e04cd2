//! Statistics that are fresh: before a report is read, the edges send the traffic that they still hold.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use live::{
    Redis, RedisError,
    traffic::{TRAFFIC_CHANNEL, TrafficRequest},
};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use crate::edges::Edges;

/// Age of the last request up to which its answer is fresh enough. Together with the time between two collections of an edge it
/// stays below the five seconds that reports promise.
const FRESH_FOR: Duration = Duration::from_secs(2);
/// Longest wait for the edges: a report without their last seconds is better than none.
const ANSWER_WAIT: Duration = Duration::from_secs(1);

/// Asks the edges for the traffic that they hold. Cheap to clone; all clones ask together.
#[derive(Clone)]
pub struct FreshTraffic {
    redis: Redis,
    edges: Edges,
    last: Arc<Mutex<Option<Instant>>>,
}

impl FreshTraffic {
    /// Creates a handle that asks `edges` over `redis`.
    pub fn new(redis: Redis, edges: Edges) -> Self {
        Self { redis, edges, last: Arc::default() }
    }

    /// Waits until Postgres has what the edges counted up to some seconds ago; a bounded time, and not at all while Redis is away.
    pub async fn bring(&self) {
        // Held while the edges are asked: whoever opens a report meanwhile needs the same answer.
        let mut last = self.last.lock().await;
        if last.is_some_and(|at| at.elapsed() < FRESH_FOR) {
            return;
        }
        let began = Instant::now();
        if let Ok(Err(error)) = timeout(ANSWER_WAIT, self.ask()).await {
            tracing::debug!(%error, "the edges cannot be asked for traffic");
        }
        *last = Some(began);
    }

    async fn ask(&self) -> Result<(), RedisError> {
        let expected = self.edges.living();
        if expected == 0 {
            return Ok(());
        }
        let request = TrafficRequest::new(hex::encode(rand::random::<[u8; 12]>()));
        let mut subscription = self.redis.subscriber().await?;
        subscription.subscribe(request.reply_channel()).await?;
        let text = serde_json::to_string(&request).unwrap_or_default();
        self.redis.publish(TRAFFIC_CHANNEL, &text).await?;
        // Each edge answers once.
        subscription.into_on_message().take(expected).for_each(|_| async {}).await;
        Ok(())
    }
}
