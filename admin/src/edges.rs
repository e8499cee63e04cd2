//! The edges as admin sees them: what they are told, and how far each of them has got.
//!
//! [`Change`](crate::change::Change) commits and hands its rows to [`Edges::apply`](crate::edges::Edges::apply), which
//! sends them and waits. One task sends changes to Redis, one listens to the edges' heartbeats; both live as long as the
//! program ([`EdgesTasks::run`](crate::edges::EdgesTasks::run)).
//! A change that could not be sent stays marked so in Postgres, where a job finds it.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::response::{IntoResponseParts, ResponseParts};
use db::edges::route_changes;
use domain::{Clock, changes::RouteChange, limits::ACKNOWLEDGE_WAIT};
use futures_util::StreamExt as _;
use http::{HeaderName, HeaderValue};
use live::{
    Redis, RedisError,
    bus::{ACKS_CHANNEL, CHANGES_CHANNEL, EdgeHeartbeat, FORGOTTEN_AFTER, HEARTBEAT_EVERY, PRESUMED_DEAD_AFTER},
};
use serde_json::{Map, Value};
use sqlx::PgPool;
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::metrics;

/// Changes that wait to be sent. When the queue is full, they are left to the job that sends again.
const SEND_QUEUE: usize = 1_024;
/// Changes marked as sent in one statement.
const MARK_BATCH: usize = 64;
/// Time after connecting for which the table of edges is not trusted: every edge needs time for a heartbeat.
const LISTEN_FIRST: Duration = HEARTBEAT_EVERY.saturating_mul(2);
/// Most edges in the table. Further ones are not heard.
const EDGES_KNOWN: usize = 10_000;
/// Pauses between attempts to listen to Redis again, doubled up to the longest.
const RECONNECT: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(2);
/// Silence on the channel after which the subscription itself is taken for broken, and made anew.
const SUSPECT_AFTER: Duration = FORGOTTEN_AFTER;

/// The answer header that says how far a change has got.
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

/// The tasks behind [`Edges`]: made together with it, and run for the program's life.
pub struct EdgesTasks {
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<RouteChange>,
    redis: Redis,
    db: PgPool,
    clock: Clock,
}

/// How far a change has got. Added to an answer, it becomes the header `X-Svc-Propagation: 3/3; 9ms`; a change that no
/// edge has to know of adds none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Propagation(Option<Receipt>);

/// The edges that had acknowledged a change when the wait for them ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Receipt {
    /// Edges that have applied the change.
    acknowledged: usize,
    /// Edges heard of lately.
    known: usize,
    /// Time for which the change waited for them.
    took: Duration,
}

impl Propagation {
    /// The propagation of a change that no edge has to know of.
    pub const NONE: Self = Self(None);

    /// Returns what events say of it: `edges` have applied the change `of` those that are up, after `ms`. Nothing where no
    /// edge has to know.
    pub fn detail(&self) -> Option<Map<String, Value>> {
        let Receipt { acknowledged, known, took } = self.0?;
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let named: [(&str, Value); 3] = [("edges", acknowledged.into()), ("of", known.into()), ("ms", millis.into())];
        Some(named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

impl Edges {
    /// Makes the handle, and the tasks that have to run for it to be of use.
    pub fn new(redis: Redis, db: PgPool, clock: Clock) -> (Self, EdgesTasks) {
        let shared = Arc::new(Shared { table: Mutex::default(), changed: Notify::new() });
        let (outbox, inbox) = mpsc::channel(SEND_QUEUE);
        (Self { shared: shared.clone(), outbox }, EdgesTasks { shared, inbox, redis, db, clock })
    }

    /// Sends a committed change to the edges, without waiting.
    pub fn send(&self, change: RouteChange) {
        if let Err(refused) = self.outbox.try_send(change) {
            tracing::warn!(%refused, "a change is left to the job that sends again");
        }
    }

    /// Sends the committed changes of one transaction, and waits for the last of them: an edge applies them in order, so
    /// one that has reached the highest `seq` has applied all.
    pub async fn apply(&self, changes: Vec<RouteChange>) -> Propagation {
        let last = changes.iter().map(|change| change.seq).max();
        for change in changes {
            self.send(change);
        }
        match last {
            Some(seq) => {
                let receipt = self.acknowledged(seq).await;
                metrics::change_propagated(receipt.took, receipt.acknowledged == receipt.known);
                Propagation(Some(receipt))
            }
            None => Propagation::NONE,
        }
    }

    /// Waits until the edges can be heard, at most `patience`: for a program that makes one change and ends. While they cannot,
    /// nobody waits for them.
    pub async fn listen(&self, patience: Duration) {
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

    /// Waits until every living edge has applied the change `seq`, at most [`ACKNOWLEDGE_WAIT`]. Returns immediately
    /// while Redis is away, because nothing can be heard then: the edges find the change in Postgres.
    async fn acknowledged(&self, seq: i64) -> Receipt {
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
                None => return Receipt { acknowledged: tally.acknowledged, known: tally.known, took: now - start },
            }
        }
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

impl fmt::Display for Propagation {
    /// `2/3; 9ms`, or nothing where no edge has to know.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Receipt { acknowledged, known, took }) = self.0 else { return Ok(()) };
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

/// The state of the edges, as their heartbeats report it.
#[derive(Default)]
struct Table {
    /// The time since which heartbeats can be heard; none while Redis is away.
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
    /// The next time at which the count may change without another heartbeat; none when nothing is waited for.
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
        let (sent, to_mark) = mpsc::channel(SEND_QUEUE);
        let forever =
            async { tokio::join!(send(inbox, sent, &redis), mark(to_mark, &db, &clock), listen(&shared, &redis)) };
        stop.run_until_cancelled(forever).await;
    }
}

/// Sends changes in the order of the queue. One that fails stays marked as unsent in Postgres, for the job.
async fn send(mut inbox: mpsc::Receiver<RouteChange>, sent: mpsc::Sender<i64>, redis: &Redis) {
    while let Some(change) = inbox.recv().await {
        match send_now(&change, redis).await {
            // A mark that is lost does no harm: what is sent twice is applied once.
            Ok(()) => drop(sent.try_send(change.seq)),
            Err(error) => tracing::warn!(error = format!("{error:#}"), seq = change.seq, "a change was not sent"),
        }
    }
}

/// Marks in Postgres what was sent, in a task beside the sending so that no change waits for it.
async fn mark(mut sent: mpsc::Receiver<i64>, db: &PgPool, clock: &Clock) {
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

/// Listens to heartbeats for the program's life, and again after each fault of Redis.
async fn listen(shared: &Shared, redis: &Redis) {
    let mut pause = *RECONNECT.start();
    loop {
        match listen_once(shared, redis).await {
            Ok(()) => pause = *RECONNECT.start(),
            Err(error) => {
                // One line per outage.
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
    fn only_a_change_that_edges_must_know_of_has_a_receipt() {
        use axum::response::IntoResponse as _;
        let header = |propagation: Propagation| (propagation, ()).into_response().headers().get(PROPAGATION).cloned();
        assert_eq!(header(Propagation::NONE), None);
        let receipt = Receipt { acknowledged: 2, known: 3, took: Duration::from_millis(9) };
        assert_eq!(header(Propagation(Some(receipt))).unwrap(), "2/3; 9ms");
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
