//! Following the changes: heard over Redis, looked up in Postgres when some were missed or Redis is away, applied in
//! order, and then acknowledged.

use std::sync::Arc;

use domain::{Clock, Timestamp, changes::RouteChange};
use futures_util::StreamExt as _;
use live::{
    Redis,
    bus::{ACKS_CHANNEL, CHANGES_CHANNEL, EdgeHeartbeat, HEARTBEAT_EVERY},
};
use redis::{AsyncCommands as _, aio::PubSub};
use sqlx::PgPool;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::Marks;
use crate::limits;

/// Applies changes to the marks, and tells admin how far it has come.
pub struct Follower {
    marks: Arc<Marks>,
    db: PgPool,
    redis: Redis,
    clock: Clock,
    /// The last change applied; none before Postgres has said where we start.
    reached: watch::Sender<Option<i64>>,
    /// The last time at which nothing was known to be missed.
    confirmed: Timestamp,
    /// Cancelled, as a signal, once Redis has taken our first heartbeat.
    announced: CancellationToken,
}

impl Follower {
    /// A follower that raises `marks`.
    pub fn new(marks: Arc<Marks>, db: PgPool, redis: Redis, clock: Clock) -> Self {
        let confirmed = clock.now();
        let (reached, announced) = (watch::Sender::new(None), CancellationToken::new());
        Self { marks, db, redis, clock, reached, confirmed, announced }
    }

    /// Done once admin can know of this edge. A site that is served before could be remembered while admin, which
    /// waits only for edges it has heard of, already says that every edge has forgotten it.
    pub fn announced(&self) -> impl Future<Output = ()> + Send + 'static {
        self.announced.clone().cancelled_owned()
    }

    /// Tells admin that edge `id` lives and what it has applied, until `stop`; then that it leaves.
    pub fn announcer(&self, id: String, stop: CancellationToken) -> impl Future<Output = ()> + Send + 'static {
        announce(self.redis.clone(), id, self.reached.subscribe(), self.announced.clone(), stop)
    }

    /// Follows until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let marks = self.marks.clone();
        let follow = async {
            loop {
                let subscribed = tokio::select! {
                    subscribed = timeout(limits::SUBSCRIBE_WAIT, self.subscribe()) => subscribed,
                    () = marks.awake().slept() => {
                        self.catch_up().await;
                        continue;
                    }
                };
                match subscribed {
                    Ok(Ok(changes)) => {
                        self.listen(changes).await;
                        tracing::warn!("the subscription to route changes ended; subscribing again");
                    }
                    Ok(Err(error)) => tracing::warn!(%error, "Redis is away; asking Postgres for route changes"),
                    Err(_) => tracing::warn!("Redis does not answer; asking Postgres for route changes"),
                }
                self.catch_up().await;
                tokio::select! {
                    () = sleep(limits::LOOK_EVERY_ALONE) => {}
                    () = marks.awake().slept() => {
                        self.catch_up().await;
                    }
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = follow => {}
            () = marks.awake().watch() => {}
        }
    }

    async fn subscribe(&self) -> Result<PubSub, redis::RedisError> {
        let mut subscriber = self.redis.subscriber().await?;
        subscriber.subscribe(CHANGES_CHANNEL).await?;
        Ok(subscriber)
    }

    /// Applies what the subscription brings, until it ends or is found to have missed something.
    async fn listen(&mut self, subscription: PubSub) {
        let mut changes = subscription.into_on_message();
        let marks = self.marks.clone();
        // What happened before the subscription stood.
        self.catch_up().await;
        let mut look = interval(limits::LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.reset();
        loop {
            tokio::select! {
                message = changes.next() => {
                    let Some(message) = message else { return };
                    match serde_json::from_slice::<RouteChange>(message.get_payload_bytes()) {
                        Ok(change) => self.hear(&change).await,
                        Err(error) => tracing::error!(%error, "a route change could not be read"),
                    }
                }
                () = marks.awake().slept() => {
                    self.catch_up().await;
                }
                _ = look.tick() => {
                    if self.catch_up().await {
                        tracing::info!("route changes had not been announced; subscribing again");
                        return;
                    }
                }
            }
        }
    }

    async fn hear(&mut self, change: &RouteChange) {
        let reached = *self.reached.borrow();
        match reached {
            Some(reached) if change.seq <= reached => {}
            Some(reached) if change.seq == reached + 1 => {
                self.marks.apply(change);
                self.reach(change.seq);
                self.confirm();
            }
            _ => {
                self.catch_up().await;
                if self.reached.borrow().is_none_or(|reached| reached < change.seq) {
                    tracing::warn!(seq = change.seq, "missed route changes cannot be read; forgetting all routes");
                    self.marks.forget_before(change.seq);
                    self.reach(change.seq);
                }
            }
        }
    }

    /// Applies what Postgres has beyond what we reached; says whether there was anything.
    async fn catch_up(&mut self) -> bool {
        let sleeps = self.marks.awake().sleeps();
        // A database that hangs must not keep us from what Redis says.
        let looked = timeout(limits::LOOK_WAIT, self.look()).await.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        let missed = match looked {
            Ok(missed) => {
                self.confirm();
                missed
            }
            Err(error) => {
                tracing::warn!(%error, "Postgres cannot be asked for route changes");
                telemetry::metrics::postgres_failed("route changes");
                self.marks.set_lapsed(self.clock.now().since(self.confirmed) > limits::STALE);
                false
            }
        };
        // Also when Postgres is away: then admin can change nothing, and warm sites are served.
        self.marks.awake().wake(sleeps);
        missed
    }

    async fn look(&self) -> Result<bool, sqlx::Error> {
        let newest = db::edges::routes::last_seq(&self.db).await?;
        let reached = *self.reached.borrow();
        match reached {
            Some(reached) if newest == reached => return Ok(false),
            Some(reached) if newest < reached => {
                tracing::warn!(reached, newest, "the database is older than our memory of it; starting over");
                self.marks.start_over();
            }
            Some(reached) if newest - reached <= limits::MISSED_CHANGES => {
                let changes = db::edges::route_changes::since(&self.db, reached, limits::MISSED_CHANGES).await?;
                for change in &changes {
                    self.marks.apply(change);
                }
                // Old changes are pruned in time: then what they touched is not known.
                if changes.first().is_none_or(|first| first.seq != reached + 1) {
                    self.marks.forget_before(newest);
                }
                let last = changes.last().map_or(newest, |last| last.seq);
                self.reach(last.max(newest));
                return Ok(true);
            }
            Some(_) | None => self.marks.forget_before(newest),
        }
        self.reach(newest);
        Ok(reached.is_some())
    }

    /// Only after everything up to `seq` is applied: this is what gets acknowledged.
    fn reach(&self, seq: i64) {
        self.marks.set_applied(seq);
        self.reached.send_replace(Some(seq));
    }

    fn confirm(&mut self) {
        self.confirmed = self.clock.now();
        self.marks.set_lapsed(false);
    }
}

/// A task of its own, so that a slow Redis delays acknowledgements only, never the applying of changes.
async fn announce(
    redis: Redis,
    edge: String,
    mut reached: watch::Receiver<Option<i64>>,
    announced: CancellationToken,
    stop: CancellationToken,
) {
    let mut beat = interval(HEARTBEAT_EVERY);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let leaving = tokio::select! {
            () = stop.cancelled() => true,
            _ = reached.changed() => false,
            _ = beat.tick() => false,
        };
        let seq = *reached.borrow_and_update();
        if let Some(seq) = seq {
            let heartbeat = EdgeHeartbeat { edge: edge.clone(), seq, leaving };
            match publish(&redis, &heartbeat).await {
                Ok(()) => announced.cancel(),
                Err(error) => tracing::debug!(%error, "the heartbeat was not heard"),
            }
        }
        if leaving {
            return;
        }
    }
}

async fn publish(redis: &Redis, heartbeat: &EdgeHeartbeat) -> Result<(), redis::RedisError> {
    let Ok(text) = serde_json::to_string(heartbeat) else { return Ok(()) };
    redis.commands().publish(ACKS_CHANNEL, text).await
}
