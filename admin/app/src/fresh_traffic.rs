//! Fresh statistics: before a report is read, the edges send the traffic of its site that they have not sent yet.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, PoisonError},
    time::Duration,
};

use domain::ProjectId;
use futures_util::StreamExt as _;
use live::{
    Redis, RedisError,
    traffic::{TRAFFIC_CHANNEL, TrafficRequest},
};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use crate::edges::EdgeRegistry;

/// The age up to which a request's result counts as fresh. Together with the interval between two collections of an
/// edge, it stays below the five seconds that reports promise.
const FRESH_FOR: Duration = Duration::from_secs(2);
/// Maximum wait for the edges: a report without their last seconds is better than none.
const ANSWER_WAIT: Duration = Duration::from_secs(1);

/// The maximum number of sites that a request names. A request for more asks for all sites.
const SITES_NAMED: usize = 500;

/// Requests unsent traffic from the edges. Cheap to clone; all clones share requests.
#[derive(Clone)]
pub struct FreshTraffic {
    redis: Redis,
    edges: EdgeRegistry,
    /// The sites that wait for the next request.
    wanted: Arc<std::sync::Mutex<HashSet<ProjectId>>>,
    /// The sites of recent requests, with the times of these requests.
    asked: Arc<Mutex<HashMap<ProjectId, Instant>>>,
}

impl FreshTraffic {
    /// Creates a handle that reaches `edges` over `redis`.
    pub fn new(redis: Redis, edges: EdgeRegistry) -> Self {
        Self { redis, edges, wanted: Arc::default(), asked: Arc::default() }
    }

    /// Waits until Postgres has a site's traffic up to some seconds ago; bounded, and skipped without Redis.
    pub async fn refresh(&self, project: &ProjectId) {
        self.lock_wanted().insert(project.clone());
        // Held during the request. Reports opened meanwhile share the next one.
        let mut asked = self.asked.lock().await;
        asked.retain(|_, at| at.elapsed() < FRESH_FOR);
        if asked.contains_key(project) {
            self.lock_wanted().remove(project);
            return;
        }
        let mut wanted = std::mem::take(&mut *self.lock_wanted());
        // Another task may have taken it for a request that it then abandoned.
        wanted.insert(project.clone());
        let began = Instant::now();
        if let Ok(Err(error)) = timeout(ANSWER_WAIT, self.request_traffic(&wanted)).await {
            tracing::debug!(%error, "the edges cannot be asked for traffic");
        }
        asked.extend(wanted.into_iter().map(|project| (project, began)));
    }

    fn lock_wanted(&self) -> std::sync::MutexGuard<'_, HashSet<ProjectId>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn request_traffic(&self, wanted: &HashSet<ProjectId>) -> Result<(), RedisError> {
        let expected = self.edges.count_living();
        if expected == 0 {
            return Ok(());
        }
        let request = TrafficRequest::new(
            hex::encode(rand::random::<[u8; 12]>()),
            if wanted.len() > SITES_NAMED { Vec::new() } else { wanted.iter().cloned().collect() },
        );
        let mut subscription = self.redis.subscriber().await?;
        subscription.subscribe(request.reply_channel()).await?;
        let text = serde_json::to_string(&request).unwrap_or_default();
        self.redis.publish(TRAFFIC_CHANNEL, &text).await?;
        // Each edge answers once.
        subscription.into_on_message().take(expected).for_each(|_| async {}).await;
        Ok(())
    }
}
