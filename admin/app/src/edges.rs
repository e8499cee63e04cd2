//! The edges: the changes sent to them, and how far each edge has applied them.
//!
//! [`Change`](crate::change::Change) commits and passes the ids of its rows to
//! [`EdgeRegistry::apply`](crate::edges::EdgeRegistry::apply), which has them numbered and sent, and waits. One task numbers changes
//! ([`sequencer`]), one sends them to Redis, one listens to the edges' heartbeats
//! ([`EdgesTasks::run`](crate::edges::EdgesTasks::run)). A job resends changes that could not be numbered or sent.

mod sequencer;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::response::{IntoResponseParts, ResponseParts};
use db::edges::{
    positions::{self, RecordedEdge},
    route_changes::{self, PendingId},
};
use domain::{
    Clock,
    changes::{ChangePosition, Epoch, RouteChange},
    limits::ACKNOWLEDGE_WAIT,
};
use futures_util::StreamExt as _;
use http::{HeaderName, HeaderValue};
use live::{
    Redis, RedisError,
    bus::{ACKS_CHANNEL, CHANGES_CHANNEL, EdgeHeartbeat, FORGOTTEN_AFTER, HEARTBEAT_EVERY, PRESUMED_DEAD_AFTER},
};
use serde_json::{Map, Value};
use sqlx::PgPool;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::metrics;

/// Transactions whose changes wait for numbers. If the queue is full, they are left to the resending job.
const NUMBER_QUEUE: usize = 1_024;
/// Changes that wait to be sent. If the queue is full, they are left to the resending job.
const SEND_QUEUE: usize = 1_024;
/// Changes marked as sent in one statement.
const MARK_BATCH: usize = 64;
/// The time after connecting in which the table of edges is incomplete: every edge needs time for a heartbeat.
const LISTEN_FIRST: Duration = HEARTBEAT_EVERY.saturating_mul(2);
/// Interval at which the positions that edges record in Postgres are read.
const READ_EVERY: Duration = Duration::from_secs(2);
/// The maximum number of edges in the table. Further ones are ignored.
const EDGES_KNOWN: usize = 10_000;
/// Backoff between attempts to listen to Redis again, doubled up to the maximum.
const RECONNECT: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(2);
/// Maximum silence of the channel before the subscription is considered broken and renewed.
const SUSPECT_AFTER: Duration = FORGOTTEN_AFTER;

const PROPAGATION: HeaderName = HeaderName::from_static("x-svc-propagation");

/// A handle on the edges. Cheap to clone.
#[derive(Clone)]
pub struct EdgeRegistry {
    shared: Arc<SharedEdges>,
    commits: mpsc::Sender<CommittedChanges>,
}

/// The changes of a committed transaction, which need numbers.
struct CommittedChanges {
    ids: Vec<PendingId>,
    /// Receives the position of the last change, if anybody waits for it.
    reply: Option<oneshot::Sender<ChangePosition>>,
}

struct SharedEdges {
    table: Mutex<EdgeTable>,
    changed: Notify,
}

/// The tasks behind [`EdgeRegistry`]. Created together with it, and run until the program ends.
pub struct EdgesTasks {
    shared: Arc<SharedEdges>,
    commits: mpsc::Receiver<CommittedChanges>,
    redis: Redis,
    db: PgPool,
    clock: Clock,
}

/// The number of edges that have applied a change. In a response, it becomes the header `X-Svc-Propagation: 3/3; 9ms`,
/// or none for a change that does not concern edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Propagation(Option<PropagationReceipt>);

/// The state of a change's propagation when the wait for it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PropagationReceipt {
    acknowledged: usize,
    known: usize,
    /// The time that the change waited for them.
    took: Duration,
}

impl Propagation {
    /// The propagation of a change that does not concern edges.
    pub const NONE: Self = Self(None);

    /// Returns the details for events: `edges` have applied the change `of` those that are up, after `ms`.
    pub fn detail(&self) -> Option<Map<String, Value>> {
        let PropagationReceipt { acknowledged, known, took } = self.0?;
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let named: [(&str, Value); 3] = [("edges", acknowledged.into()), ("of", known.into()), ("ms", millis.into())];
        Some(named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

impl EdgeRegistry {
    /// Creates the handle, and the tasks that must run for it to work.
    pub fn new(redis: Redis, db: PgPool, clock: Clock) -> (Self, EdgesTasks) {
        let shared = Arc::new(SharedEdges { table: Mutex::default(), changed: Notify::new() });
        let (sender, commits) = mpsc::channel(NUMBER_QUEUE);
        (Self { shared: shared.clone(), commits: sender }, EdgesTasks { shared, commits, redis, db, clock })
    }

    /// Has the changes of a committed transaction numbered and sent to the edges, without waiting.
    pub fn send(&self, ids: Vec<PendingId>) {
        self.enqueue(CommittedChanges { ids, reply: None });
    }

    fn enqueue(&self, commit: CommittedChanges) {
        if !commit.ids.is_empty() && self.commits.try_send(commit).is_err() {
            tracing::warn!("a change is left without a number to the job that sends again");
        }
    }

    /// Has the changes of a committed transaction numbered and sent, and waits for the last of them: edges apply
    /// changes in order, so an edge that has reached the highest `seq` has applied all.
    pub async fn apply(&self, ids: Vec<PendingId>) -> Propagation {
        if ids.is_empty() {
            return Propagation::NONE;
        }
        let start = Instant::now();
        let (reply, position) = oneshot::channel();
        self.enqueue(CommittedChanges { ids, reply: Some(reply) });
        let position = tokio::time::timeout_at(start + ACKNOWLEDGE_WAIT, position).await;
        let Ok(Ok(position)) = position else {
            // The change is committed, and edges receive it once it has its number.
            let known = self.shared.table().count_known(Instant::now());
            metrics::change_propagated(start.elapsed(), false);
            return Propagation(Some(PropagationReceipt { acknowledged: 0, known, took: start.elapsed() }));
        };
        let receipt = self.wait_for_edges(&position, start).await;
        // If no edge is known, none has confirmed.
        let is_complete = receipt.acknowledged == receipt.known && receipt.known > 0;
        metrics::change_propagated(receipt.took, is_complete);
        Propagation(Some(receipt))
    }

    /// Waits up to `patience` until heartbeats arrive, for a program that makes one change and exits. Without
    /// heartbeats, a change does not wait for edges.
    pub async fn wait_for_heartbeats(&self, patience: Duration) {
        let listening = async {
            loop {
                let mut changed = std::pin::pin!(self.shared.changed.notified());
                changed.as_mut().enable();
                if self.shared.table().listening_since.is_some() {
                    return;
                }
                changed.await;
            }
        };
        if tokio::time::timeout(patience, listening).await.is_err() {
            tracing::warn!(
                "the edges cannot be heard, because Redis does not answer; they find the change in Postgres"
            );
        }
    }

    /// Returns the number of edges seen recently.
    pub fn count_living(&self) -> usize {
        let now = Instant::now();
        self.shared.table().edges.values().filter(|heard| now - heard.at < PRESUMED_DEAD_AFTER).count()
    }

    /// Waits up to [`ACKNOWLEDGE_WAIT`] until every living edge has applied the change at `position`. Returns
    /// immediately while Redis is unavailable: no heartbeats arrive, and the edges find the change in Postgres.
    async fn wait_for_edges(&self, position: &ChangePosition, start: Instant) -> PropagationReceipt {
        let deadline = start + ACKNOWLEDGE_WAIT;
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            let now = Instant::now();
            let tally = self.shared.table().tally(position, now);
            match tally.look_again.filter(|_| now < deadline) {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at.min(deadline), changed).await;
                }
                None => {
                    return PropagationReceipt {
                        acknowledged: tally.acknowledged,
                        known: tally.known,
                        took: now - start,
                    };
                }
            }
        }
    }
}

impl SharedEdges {
    fn table(&self) -> std::sync::MutexGuard<'_, EdgeTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut EdgeTable)) {
        change(&mut self.table());
        self.changed.notify_waiters();
    }
}

impl fmt::Display for Propagation {
    /// Formats as `2/3; 9ms`, or as nothing for a change that does not concern edges.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(PropagationReceipt { acknowledged, known, took }) = self.0 else { return Ok(()) };
        write!(f, "{acknowledged}/{known}; {}ms", took.as_millis())
    }
}

impl IntoResponseParts for Propagation {
    type Error = std::convert::Infallible;
    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Self::Error> {
        if self.0.is_some()
            && let Ok(value) = HeaderValue::from_str(&self.to_string())
        {
            response.headers_mut().insert(PROPAGATION, value);
        }
        Ok(response)
    }
}

#[derive(Default)]
struct EdgeTable {
    /// Since when heartbeats have been received; `None` while Redis is unavailable.
    listening_since: Option<Instant>,
    edges: HashMap<String, EdgePosition>,
    /// The edges that recently recorded their positions in Postgres. Complete even without Redis.
    recorded: Vec<RecordedEdge>,
    /// The edges that announced their shutdown, which may still be among `recorded`.
    left: HashMap<String, Instant>,
}

struct EdgePosition {
    seq: i64,
    /// The epoch of `seq`; `None` if the edge's version does not know epochs.
    epoch: Option<Epoch>,
    at: Instant,
}

impl EdgePosition {
    /// Returns whether the edge has applied the change. An edge in another epoch has not revalidated its cache.
    fn has_acknowledged(&self, position: &ChangePosition) -> bool {
        self.epoch.as_ref() == Some(&position.epoch) && self.seq >= position.seq
    }

    /// Returns whether to wait for the edge. An edge that does not know epochs is waited for until it has reached
    /// `seq`: it has then applied the change, unless numbers were reused, and will report nothing more.
    fn is_behind(&self, position: &ChangePosition) -> bool {
        !self.has_acknowledged(position) && (self.epoch.is_some() || self.seq < position.seq)
    }
}

struct AcknowledgementCount {
    acknowledged: usize,
    known: usize,
    /// When the count may next change without a heartbeat; `None` if there is nothing to wait for.
    look_again: Option<Instant>,
}

impl EdgeTable {
    fn apply_heartbeat(&mut self, heartbeat: EdgeHeartbeat, now: Instant) {
        self.edges.retain(|_, heard| now - heard.at < FORGOTTEN_AFTER);
        self.left.retain(|_, at| now - *at < FORGOTTEN_AFTER);
        if heartbeat.leaving {
            self.edges.remove(&heartbeat.edge);
            if self.left.len() < EDGES_KNOWN {
                self.left.insert(heartbeat.edge, now);
            }
        } else if self.edges.len() < EDGES_KNOWN || self.edges.contains_key(&heartbeat.edge) {
            let EdgeHeartbeat { edge, seq, epoch, .. } = heartbeat;
            let before = self.edges.get(&edge).filter(|before| before.epoch == epoch).map_or(seq, |before| before.seq);
            self.edges.insert(edge, EdgePosition { seq: seq.max(before), epoch, at: now });
        }
    }

    fn heard_edges(&self, now: Instant) -> impl Iterator<Item = &EdgePosition> {
        self.edges.values().filter(move |heard| now - heard.at < FORGOTTEN_AFTER)
    }

    /// Returns the edges without recent heartbeats that recorded their positions.
    fn silent_edges(&self, now: Instant) -> impl Iterator<Item = &RecordedEdge> {
        let is_heard = move |id: &str| self.edges.get(id).is_some_and(|heard| now - heard.at < FORGOTTEN_AFTER);
        self.recorded.iter().filter(move |edge| !is_heard(&edge.id) && !self.left.contains_key(&edge.id))
    }

    /// Returns the number of all known edges, with or without heartbeats.
    fn count_known(&self, now: Instant) -> usize {
        self.heard_edges(now).count() + self.silent_edges(now).count()
    }

    fn tally(&self, position: &ChangePosition, now: Instant) -> AcknowledgementCount {
        let known: Vec<&EdgePosition> = self.heard_edges(now).collect();
        let acknowledged = known.iter().filter(|heard| heard.has_acknowledged(position)).count();
        // Do not wait for these: they find the change in Postgres, and record it seconds later.
        let has_recorded =
            |edge: &&RecordedEdge| edge.position.epoch == position.epoch && edge.position.seq >= position.seq;
        let (unheard, recorded) = (self.silent_edges(now).count(), self.silent_edges(now).filter(has_recorded).count());
        let look_again = self.listening_since.and_then(|since| {
            let trusted_from = since + LISTEN_FIRST;
            if now < trusted_from {
                return Some(trusted_from);
            }
            let presumed_dead_at = |heard: &&&EdgePosition| heard.at + PRESUMED_DEAD_AFTER;
            known
                .iter()
                .filter(|heard| heard.is_behind(position))
                .map(|heard| presumed_dead_at(&heard))
                .filter(|&at| at > now)
                .min()
        });
        AcknowledgementCount { acknowledged: acknowledged + recorded, known: known.len() + unheard, look_again }
    }
}

impl EdgesTasks {
    /// Sends and listens until `stop`, which must come after the last request was answered.
    pub async fn run(self, stop: CancellationToken) {
        let Self { shared, commits, redis, db, clock } = self;
        let ((outbox, inbox), (sent, to_mark)) = (mpsc::channel(SEND_QUEUE), mpsc::channel(SEND_QUEUE));
        let forever = async {
            tokio::join!(
                sequencer::run(commits, outbox, &db),
                send(inbox, sent, &redis),
                mark_sent(to_mark, &db, &clock),
                listen(&shared, &redis),
                read_positions(&shared, &db)
            )
        };
        stop.run_until_cancelled(forever).await;
    }
}

/// Sends changes in the order of the queue. A change that fails remains marked as unsent in Postgres, for the job.
async fn send(mut inbox: mpsc::Receiver<RouteChange>, sent: mpsc::Sender<i64>, redis: &Redis) {
    while let Some(change) = inbox.recv().await {
        match send_now(&change, redis).await {
            // Losing a mark is harmless: a change that is sent twice is applied once.
            Ok(()) => drop(sent.try_send(change.seq)),
            Err(error) => tracing::warn!(error = format!("{error:#}"), seq = change.seq, "a change was not sent"),
        }
    }
}

/// Marks changes as sent in Postgres, in a separate task so that sending does not wait for it.
async fn mark_sent(mut sent: mpsc::Receiver<i64>, db: &PgPool, clock: &Clock) {
    let mut seqs = Vec::with_capacity(MARK_BATCH);
    while sent.recv_many(&mut seqs, MARK_BATCH).await > 0 {
        if let Err(error) = db::in_time(route_changes::mark_sent(db, &seqs, clock.now())).await {
            tracing::warn!(%error, "changes that were sent are still marked as unsent");
        }
        seqs.clear();
    }
}

/// Sends one committed change to the edges that listen on Redis.
pub async fn send_now(change: &RouteChange, redis: &Redis) -> anyhow::Result<()> {
    Ok(redis.publish(CHANGES_CHANNEL, &serde_json::to_string(change)?).await?)
}

/// Listens to heartbeats until the program ends, and reconnects after failures of Redis.
async fn listen(shared: &SharedEdges, redis: &Redis) {
    let mut pause = *RECONNECT.start();
    loop {
        match listen_once(shared, redis).await {
            Ok(()) => pause = *RECONNECT.start(),
            Err(error) => {
                // One log line per outage.
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

/// Reads the positions that edges record, until the program ends. While Postgres is down, they stay as they are.
async fn read_positions(shared: &SharedEdges, db: &PgPool) {
    let most = i64::try_from(EDGES_KNOWN).unwrap_or(i64::MAX);
    loop {
        match db::in_time(positions::list_recorded(db, FORGOTTEN_AFTER, most)).await {
            Ok(recorded) => shared.table().recorded = recorded,
            Err(error) => tracing::debug!(%error, "the edges that there are cannot be read"),
        }
        tokio::time::sleep(READ_EVERY).await;
    }
}

/// Listens until the subscription ends, or falls silent after a heartbeat was received: it may then be half open.
async fn listen_once(shared: &SharedEdges, redis: &Redis) -> Result<(), RedisError> {
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
            Ok(heartbeat) => shared.update(|table| table.apply_heartbeat(heartbeat, Instant::now())),
            Err(error) => tracing::warn!(%error, "an unreadable heartbeat was ignored"),
        }
    }
}

#[cfg(test)]
mod tests;
