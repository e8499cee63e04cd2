//! Follows changes: receives them over Redis, looks them up in Postgres if some were missed or Redis is unreachable,
//! applies them in order, and acknowledges them. [`super::progress`] decides what to do with each.

use std::sync::Arc;

use db::edges::{lost_changes, positions, route_changes};
use domain::{ChangePosition, Clock, Timestamp, changes::RouteChange};
use futures_util::StreamExt as _;
use live::{
    Redis,
    bus::{ACKS_CHANNEL, CHANGES_CHANNEL, EdgeHeartbeat, HEARTBEAT_EVERY},
};
use redis::{AsyncCommands as _, aio::PubSub};
use sqlx::PgPool;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    ChangeMarks,
    progress::{ChangeLoss, ChangeOutcome, ChangeProgress, LookOutcome},
};

/// Applies changes to the marks, and reports its progress to admin.
pub struct ChangeFollower {
    marks: Arc<ChangeMarks>,
    progress: ChangeProgress,
    /// Changes lost by the database that are not yet reported to it.
    losses: Vec<ChangeLoss>,
    edge: String,
    db: PgPool,
    redis: Redis,
    clock: Clock,
    /// The position of the last applied change; `None` until the first look at Postgres.
    reached: watch::Sender<Option<ChangePosition>>,
    /// Whether a change of another epoch was received that could not be looked up.
    is_in_doubt: bool,
    /// The last time at which no change was known to be missing.
    confirmed: Timestamp,
    announced: CancellationToken,
}

enum SubscriptionEnd {
    Ended,
    /// It did not deliver a change that Postgres has.
    Missed,
}

impl ChangeFollower {
    /// Creates a follower for the edge with this ID that applies changes to `marks`.
    pub fn new(edge: String, marks: Arc<ChangeMarks>, db: PgPool, redis: Redis, clock: Clock) -> Self {
        let confirmed = clock.now();
        let (reached, announced) = (watch::Sender::new(None), CancellationToken::new());
        let progress = ChangeProgress::new(marks.clone());
        let losses = Vec::new();
        Self { marks, progress, losses, edge, db, redis, clock, reached, is_in_doubt: false, confirmed, announced }
    }

    /// Waits until admin can know of this edge. Before that, admin, which waits only for known edges, could report that
    /// every edge has dropped a site that this edge has just cached.
    pub fn announced(&self) -> impl Future<Output = ()> + Send + 'static {
        self.announced.clone().cancelled_owned()
    }

    /// Reports over Redis and in Postgres that this edge is alive and what it has applied, and at `stop` that it
    /// leaves.
    pub fn announcer(&self, stop: CancellationToken) -> impl Future<Output = ()> + Send + 'static {
        let (id, reached) = (self.edge.clone(), self.reached.subscribe());
        let record = record(self.db.clone(), id.clone(), reached.clone(), stop.clone());
        let announce = announce(self.redis.clone(), id, reached, self.announced.clone(), stop);
        async { _ = tokio::join!(announce, record) }
    }

    /// Follows until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let marks = self.marks.clone();
        let follow = async {
            loop {
                let subscribed = tokio::select! {
                    subscribed = timeout(limits::SUBSCRIBE_WAIT, self.subscribe()) => subscribed,
                    () = marks.look_requested() => {
                        self.catch_up().await;
                        continue;
                    }
                };
                match subscribed {
                    Ok(Ok(changes)) => match self.listen(changes).await {
                        SubscriptionEnd::Ended => {
                            tracing::warn!("the subscription to route changes ended; subscribing again");
                        }
                        SubscriptionEnd::Missed => {
                            tracing::info!("route changes had not been announced; subscribing again");
                            continue;
                        }
                    },
                    Ok(Err(error)) => tracing::warn!(%error, "Redis is away; asking Postgres for route changes"),
                    Err(_) => tracing::warn!("Redis does not answer; asking Postgres for route changes"),
                }
                self.catch_up().await;
                tokio::select! {
                    () = sleep(limits::POLL_EVERY_WITHOUT_REDIS) => {}
                    () = marks.look_requested() => {
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

    /// Applies what the subscription delivers, until it ends or has missed a change.
    async fn listen(&mut self, subscription: PubSub) -> SubscriptionEnd {
        let mut changes = subscription.into_on_message();
        let marks = self.marks.clone();
        // Changes from before the subscription was active.
        self.catch_up().await;
        let mut look_at = Instant::now() + limits::POLL_EVERY;
        // A change that Postgres had before Redis delivered it, and the deadline for its delivery.
        let mut expected: Option<(i64, Instant)> = None;
        loop {
            let overdue = async {
                match expected {
                    Some((_, by)) => sleep_until(by).await,
                    None => std::future::pending().await,
                }
            };
            let looked = tokio::select! {
                // Messages come first, before one is declared missing.
                biased;
                message = changes.next() => {
                    let Some(message) = message else { return SubscriptionEnd::Ended };
                    match serde_json::from_slice::<RouteChange>(message.get_payload_bytes()) {
                        Ok(change) => {
                            expected = expected.filter(|(seq, _)| change.seq < *seq);
                            self.receive(&change).await;
                        }
                        Err(error) => tracing::error!(%error, "a route change could not be read"),
                    }
                    continue;
                }
                () = overdue => return SubscriptionEnd::Missed,
                () = marks.look_requested() => self.catch_up().await,
                () = sleep_until(look_at) => self.catch_up().await,
            };
            look_at =
                Instant::now() + if self.is_in_doubt { limits::POLL_EVERY_WITHOUT_REDIS } else { limits::POLL_EVERY };
            // The change is committed, but its message may still be in flight.
            if looked == Some(LookOutcome::CaughtUp) && expected.is_none() {
                let seq = self.progress.position().map(|position| position.seq);
                expected = seq.map(|seq| (seq, Instant::now() + limits::MISSED_AFTER));
            }
        }
    }

    async fn receive(&mut self, change: &RouteChange) {
        match self.progress.receive(change) {
            ChangeOutcome::Known => return,
            ChangeOutcome::Applied => {
                self.publish_position();
                self.confirm();
                return;
            }
            ChangeOutcome::Unclear => {}
        }
        let is_foreign = change.epoch.is_some() && !self.progress.is_same_epoch(change);
        // A look is due soon anyway, and changes of our epoch must not wait for one each time.
        if is_foreign && self.is_in_doubt {
            return;
        }
        let has_looked = self.catch_up().await.is_some();
        if is_foreign {
            self.is_in_doubt = !has_looked;
        } else if self.progress.position().is_none_or(|position| position.seq < change.seq) {
            if has_looked {
                // Sent by a program at another database, or at a lost replica.
                tracing::warn!(seq = change.seq, "Postgres does not have a change that was announced; ignoring it");
            } else {
                tracing::warn!(seq = change.seq, "missed route changes cannot be read; forgetting all routes");
                self.progress.skip_to(change);
                self.publish_position();
            }
        }
    }

    /// Applies the changes in Postgres after our position; `None` if Postgres cannot be read.
    async fn catch_up(&mut self) -> Option<LookOutcome> {
        let sleeps = self.marks.awake().sleeps();
        let find = route_changes::list_from(&self.db, self.progress.query_start(), ChangeProgress::most_changes());
        // A hung database must not block messages from Redis.
        let found = timeout(limits::POLL_WAIT, find).await.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        let looked = match found {
            Ok(found) => {
                let looked = self.progress.apply_found(&found);
                self.is_in_doubt = false;
                self.publish_position();
                self.confirm();
                if self.losses.len() < limits::UNREPORTED_LOSSES {
                    self.losses.extend(self.progress.take_loss());
                }
                Some(looked)
            }
            Err(error) => {
                tracing::warn!(%error, "Postgres cannot be asked for route changes");
                edge_metrics::postgres_failed("route changes", &error);
                self.marks.set_lapsed(self.clock.now().since(self.confirmed) > limits::STALE);
                None
            }
        };
        self.marks.notify_looked();
        // Even if Postgres is unreachable: then admin cannot change anything, and warm sites are served.
        self.marks.awake().wake(sleeps);
        if looked.is_some() && !self.losses.is_empty() {
            // Changes do not wait for a hung database; the next look tries again.
            if let Ok(Err(error)) = timeout(limits::RECORD_WAIT, self.report_losses()).await {
                tracing::warn!(%error, "Postgres cannot be told which changes it has lost");
            }
        }
        looked
    }

    /// Logs the known lost changes, and records them in the database, so that admin notifies the operator.
    async fn report_losses(&mut self) -> Result<(), sqlx::Error> {
        while let Some(loss) = self.losses.last() {
            let found = match loss.first_known() {
                Some(first) => {
                    route_changes::list_from(&self.db, Some(first), ChangeProgress::most_changes()).await?.changes
                }
                None => Vec::new(),
            };
            let lost = loss.lost_changes(&found);
            lost_changes::record(&self.db, &self.edge, &lost).await?;
            tracing::error!(
                first = lost.first_seq,
                last = lost.last_seq,
                newest = lost.newest.seq,
                subjects = lost.subjects.join(" "),
                "the database has lost changes that were applied here: check these subjects (deploy/runbook/changes-lost.md)"
            );
            self.losses.pop();
        }
        Ok(())
    }

    fn publish_position(&self) {
        self.reached.send_if_modified(|told| {
            let is_new = told.as_ref() != self.progress.position();
            if is_new {
                *told = self.progress.position().cloned();
            }
            is_new
        });
    }

    fn confirm(&mut self) {
        self.confirmed = self.clock.now();
        self.marks.set_lapsed(false);
    }
}

/// Runs in its own task, so that a slow Redis delays only acknowledgements, never the application of changes.
async fn announce(
    redis: Redis,
    edge: String,
    mut reached: watch::Receiver<Option<ChangePosition>>,
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
        let position = reached.borrow_and_update().clone();
        if let Some(position) = position {
            let heartbeat = EdgeHeartbeat::new(edge.clone(), position, leaving);
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

/// Records this edge's position in Postgres, where admin finds it even if Redis is unreachable.
async fn record(db: PgPool, edge: String, reached: watch::Receiver<Option<ChangePosition>>, stop: CancellationToken) {
    let mut beat = interval(limits::RECORD_EVERY);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reached_first = reached.clone();
    let first = async { reached_first.wait_for(Option::is_some).await.is_ok() };
    if stop.run_until_cancelled(first).await != Some(true) {
        return;
    }
    loop {
        let is_leaving = stop.run_until_cancelled(beat.tick()).await.is_none();
        let position = reached.borrow().clone();
        if let Some(position) = position {
            let recording = positions::record(&db, &edge, &position, is_leaving);
            match timeout(limits::RECORD_WAIT, recording).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "the position of this edge is not recorded"),
                Err(_) => tracing::debug!("the position of this edge is not recorded in time"),
            }
        }
        if is_leaving {
            return;
        }
    }
}

async fn publish(redis: &Redis, heartbeat: &EdgeHeartbeat) -> Result<(), redis::RedisError> {
    let Ok(text) = serde_json::to_string(heartbeat) else { return Ok(()) };
    redis.commands().publish(ACKS_CHANNEL, text).await
}
