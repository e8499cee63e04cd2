//! The edges as admin sees them: what they are told, and how far each of them has got.
//!
//! A handler commits a change, hands it to [`Edges::publish`] and waits in [`Edges::acknowledged`]. One task sends
//! changes to Redis, one listens to the edges' heartbeats; both live as long as the program ([`Edges::run`]). What
//! could not be sent stays unpublished in Postgres, where a job finds it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::response::{IntoResponseParts, ResponseParts};
use db::route_changes;
use domain::{Clock, changes::RouteChange, limits::ACKNOWLEDGE_WAIT};
use futures_util::StreamExt as _;
use http::{HeaderName, HeaderValue};
use live::{
    Redis, RedisError,
    bus::{ACKS_CHANNEL, CHANGES_CHANNEL, EdgeHeartbeat, FORGOTTEN_AFTER, HEARTBEAT_EVERY, PRESUMED_DEAD_AFTER},
};
use sqlx::PgPool;
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Changes that wait to be sent. When it is full, the job that republishes takes over.
const PUBLISH_QUEUE: usize = 1_024;
/// Publications noted in one statement.
const NOTE_BATCH: usize = 64;
/// After connecting, no table of edges is trusted before every edge has had time for a heartbeat.
const LISTEN_FIRST: Duration = HEARTBEAT_EVERY.saturating_mul(2);
/// Edges in the table, at most: a bound, not an aim.
const EDGES_KNOWN: usize = 10_000;
/// Pauses between attempts to listen to Redis again.
const RECONNECT: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(2);
/// Silence on the channel after which the subscription itself is suspected, and made anew.
const SUSPECT_AFTER: Duration = FORGOTTEN_AFTER;

/// `X-Svc-Propagation`.
const PROPAGATION: HeaderName = HeaderName::from_static("x-svc-propagation");

/// A handle on the edges. Cheap to clone.
#[derive(Clone)]
pub struct Edges {
    shared: Arc<Shared>,
    outbox: mpsc::Sender<RouteChange>,
}

struct Shared {
    table: Mutex<Table>,
    /// Woken at every heartbeat and at every change of the connection.
    changed: Notify,
}

/// The tasks behind [`Edges`]; made with it, run once.
pub struct EdgesTasks {
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<RouteChange>,
    redis: Redis,
    db: PgPool,
    clock: Clock,
}

/// How far a change has got. Added to an answer, it becomes its `X-Svc-Propagation` header: `3/3; 9ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Propagation {
    /// Edges that have applied the change.
    pub acknowledged: usize,
    /// Edges heard of lately.
    pub known: usize,
    /// How long the answer waited for them.
    pub took: Duration,
}

impl Edges {
    /// The handle, and the tasks that have to run for it to be of use.
    pub fn new(redis: Redis, db: PgPool, clock: Clock) -> (Self, EdgesTasks) {
        let shared = Arc::new(Shared { table: Mutex::default(), changed: Notify::new() });
        let (outbox, inbox) = mpsc::channel(PUBLISH_QUEUE);
        (Self { shared: shared.clone(), outbox }, EdgesTasks { shared, inbox, redis, db, clock })
    }

    /// Tells the edges of a committed change, without waiting.
    pub fn publish(&self, change: RouteChange) {
        if let Err(refused) = self.outbox.try_send(change) {
            tracing::warn!(%refused, "a change is left to the job that republishes");
        }
    }

    /// Waits until every living edge has applied the change `seq`, at most [`ACKNOWLEDGE_WAIT`]. Returns at once while
    /// Redis is away, because nothing can be heard then: the edges find the change in Postgres.
    pub async fn acknowledged(&self, seq: i64) -> Propagation {
        let start = Instant::now();
        let deadline = start + ACKNOWLEDGE_WAIT;
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            let now = Instant::now();
            let tally = self.shared.table().tally(seq, now);
            match tally.look_again.filter(|_| now < deadline) {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at.min(deadline), changed).await;
                }
                None => return Propagation { acknowledged: tally.acknowledged, known: tally.known, took: now - start },
            }
        }
    }

    /// [`Self::publish`] and [`Self::acknowledged`].
    pub async fn apply(&self, change: RouteChange) -> Propagation {
        let seq = change.seq;
        self.publish(change);
        self.acknowledged(seq).await
    }
}

impl Shared {
    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut Table)) {
        change(&mut self.table());
        self.changed.notify_waiters();
    }
}

impl IntoResponseParts for Propagation {
    type Error = std::convert::Infallible;
    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Self::Error> {
        let text = format!("{}/{}; {}ms", self.acknowledged, self.known, self.took.as_millis());
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().insert(PROPAGATION, value);
        }
        Ok(response)
    }
}

/// What the heartbeats have said.
#[derive(Default)]
struct Table {
    /// Since when heartbeats can be heard; none while Redis is away.
    listening_since: Option<Instant>,
    edges: HashMap<String, Heard>,
}

struct Heard {
    seq: i64,
    at: Instant,
}

struct Tally {
    acknowledged: usize,
    known: usize,
    /// When waiting on could change the count even if no edge says anything more; none when nothing is waited for.
    look_again: Option<Instant>,
}

impl Table {
    fn hear(&mut self, heartbeat: EdgeHeartbeat, now: Instant) {
        self.edges.retain(|_, heard| now - heard.at < FORGOTTEN_AFTER);
        if heartbeat.leaving {
            self.edges.remove(&heartbeat.edge);
        } else if self.edges.len() < EDGES_KNOWN || self.edges.contains_key(&heartbeat.edge) {
            let heard = self.edges.entry(heartbeat.edge).or_insert(Heard { seq: heartbeat.seq, at: now });
            *heard = Heard { seq: heard.seq.max(heartbeat.seq), at: now };
        }
    }

    fn tally(&self, seq: i64, now: Instant) -> Tally {
        let known: Vec<&Heard> = self.edges.values().filter(|heard| now - heard.at < FORGOTTEN_AFTER).collect();
        let acknowledged = known.iter().filter(|heard| heard.seq >= seq).count();
        let look_again = self.listening_since.and_then(|since| {
            let trusted_from = since + LISTEN_FIRST;
            if now < trusted_from {
                return Some(trusted_from);
            }
            let presumed_dead_at = |heard: &&&Heard| heard.at + PRESUMED_DEAD_AFTER;
            known
                .iter()
                .filter(|heard| heard.seq < seq)
                .map(|heard| presumed_dead_at(&heard))
                .filter(|&at| at > now)
                .min()
        });
        Tally { acknowledged, known: known.len(), look_again }
    }
}

impl EdgesTasks {
    /// Sends and listens until `stop`. Stop it after the last request was answered.
    pub async fn run(self, stop: CancellationToken) {
        let Self { shared, inbox, redis, db, clock } = self;
        let (sent, to_note) = mpsc::channel(PUBLISH_QUEUE);
        let forever =
            async { tokio::join!(send(inbox, sent, &redis), note(to_note, &db, &clock), listen(&shared, &redis)) };
        stop.run_until_cancelled(forever).await;
    }
}

/// Publishes what handlers hand in, in their order. What fails stays unpublished in Postgres, for the job.
async fn send(mut inbox: mpsc::Receiver<RouteChange>, sent: mpsc::Sender<i64>, redis: &Redis) {
    while let Some(change) = inbox.recv().await {
        match publish(&change, redis).await {
            // A full queue is as good as a failed publication: sent twice is applied once.
            Ok(()) => drop(sent.try_send(change.seq)),
            Err(error) => tracing::warn!(error = format!("{error:#}"), seq = change.seq, "a change was not published"),
        }
    }
}

/// Notes in Postgres what was published, beside the sending so that no change waits for it.
async fn note(mut sent: mpsc::Receiver<i64>, db: &PgPool, clock: &Clock) {
    let mut seqs = Vec::with_capacity(NOTE_BATCH);
    while sent.recv_many(&mut seqs, NOTE_BATCH).await > 0 {
        if let Err(error) = route_changes::mark_published(db, &seqs, clock.now()).await {
            tracing::warn!(%error, "published changes are still marked unpublished");
        }
        seqs.clear();
    }
}

/// Publishes one committed change to every edge that listens.
pub async fn publish(change: &RouteChange, redis: &Redis) -> anyhow::Result<()> {
    Ok(redis.publish(CHANGES_CHANNEL, &serde_json::to_string(change)?).await?)
}

/// Listens to heartbeats for ever, through every fault of Redis.
async fn listen(shared: &Shared, redis: &Redis) {
    let mut pause = *RECONNECT.start();
    loop {
        match listen_once(shared, redis).await {
            Ok(()) => pause = *RECONNECT.start(),
            Err(error) => {
                // Said once an outage.
                if pause == *RECONNECT.start() {
                    tracing::warn!(%error, "cannot hear the edges: answers do not wait for them until Redis is back");
                }
                pause = (pause * 2).min(*RECONNECT.end());
            }
        }
        shared.update(|table| table.listening_since = None);
        tokio::time::sleep(pause).await;
    }
}

/// Listens until the subscription ends, or falls silent after something was heard: then it may be half open.
async fn listen_once(shared: &Shared, redis: &Redis) -> Result<(), RedisError> {
    let mut subscription = redis.subscriber().await?;
    subscription.subscribe(ACKS_CHANNEL).await?;
    shared.update(|table| table.listening_since = Some(Instant::now()));
    let mut messages = subscription.on_message();
    let mut heard_any = false;
    loop {
        let message = match tokio::time::timeout(SUSPECT_AFTER, messages.next()).await {
            Ok(Some(message)) => message,
            Err(_silence) if !heard_any => continue,
            Ok(None) | Err(_) => return Ok(()),
        };
        heard_any = true;
        match serde_json::from_slice::<EdgeHeartbeat>(message.get_payload_bytes()) {
            Ok(heartbeat) => shared.update(|table| table.hear(heartbeat, Instant::now())),
            Err(error) => tracing::warn!(%error, "an unreadable heartbeat was ignored"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heartbeat(edge: &str, seq: i64) -> EdgeHeartbeat {
        EdgeHeartbeat { edge: edge.into(), seq, leaving: false }
    }

    fn count(table: &Table, seq: i64, now: Instant) -> (usize, usize, bool) {
        let tally = table.tally(seq, now);
        (tally.acknowledged, tally.known, tally.look_again.is_some())
    }

    #[test]
    fn an_answer_waits_for_the_living_and_counts_the_dead() {
        let start = Instant::now();
        let mut table = Table { listening_since: Some(start), ..Table::default() };
        let now = start + LISTEN_FIRST;
        table.hear(heartbeat("a", 7), now);
        table.hear(heartbeat("b", 6), now);
        assert_eq!(count(&table, 7, now), (1, 2, true), "b lives and is behind");
        assert_eq!(count(&table, 6, now), (2, 2, false), "both are there");
        assert_eq!(count(&table, 7, now + PRESUMED_DEAD_AFTER), (1, 2, false), "b is presumed dead");
        assert_eq!(count(&table, 7, now + FORGOTTEN_AFTER), (0, 0, false), "both are forgotten");
        table.hear(heartbeat("b", 7), now);
        assert_eq!(count(&table, 7, now), (2, 2, false));
        table.hear(EdgeHeartbeat { leaving: true, ..heartbeat("b", 7) }, now);
        assert_eq!(count(&table, 7, now), (1, 1, false), "b has said goodbye");
    }

    #[test]
    fn the_table_is_trusted_only_once_every_edge_could_have_spoken() {
        let start = Instant::now();
        let mut table = Table { listening_since: Some(start), ..Table::default() };
        table.hear(heartbeat("a", 7), start);
        assert_eq!(count(&table, 7, start), (1, 1, true));
        assert_eq!(count(&table, 7, start + LISTEN_FIRST), (1, 1, false));
        table.listening_since = None;
        assert_eq!(count(&table, 8, start), (0, 1, false), "nothing can be heard: nothing is waited for");
    }
}
