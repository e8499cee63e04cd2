//! Events: what subscribers of an account receive, from the commit to the streams of this process.
//!
//! [`Change`](crate::change::Change) publishes what it has committed; one task appends it to a Redis stream
//! (`sender.rs`), one reads that stream for all clients of this process (`reader.rs`) into a [`EventHub`], which keeps the
//! newest events in memory. Publishing never waits and never fails: after a loss, every stream is reset. Not here: who
//! may see which event (`api/events`).

mod entry;
mod hub;
mod reader;
mod sender;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use db::audit::{Actor, NewAuditEntry};
use domain::Timestamp;
use live::{Redis, events::StreamMessage};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use self::{
    entry::{KIND_BILLING, KIND_DOMAIN_STATE, KIND_PUSH, event_from_entry, project_event, receipt_events},
    hub::{EventContent, EventHub, EventReceiver, StoredEvent, StreamPosition},
};
use crate::metrics;

/// The capacity of the send queue. When it is full, events are dropped.
const SEND_QUEUE: usize = 4_096;

/// A handle on the events. Cheap to clone.
#[derive(Clone)]
pub struct EventPublisher {
    hub: Arc<EventHub>,
    outbox: mpsc::Sender<StreamMessage>,
    lost: LossFlag,
}

/// Whether events were dropped and subscribers not reset yet. Clones share it.
#[derive(Debug, Clone, Default)]
struct LossFlag(Arc<AtomicBool>);

/// The tasks behind [`EventPublisher`], created together with it and run for the program's life.
pub struct EventsTasks {
    hub: Arc<EventHub>,
    inbox: mpsc::Receiver<StreamMessage>,
    lost: LossFlag,
    redis: Redis,
}

impl EventPublisher {
    /// Creates the handle, and the tasks that must run for it to work.
    pub fn new(redis: Redis) -> (Self, EventsTasks) {
        let (outbox, inbox) = mpsc::channel(SEND_QUEUE);
        let (hub, lost) = (Arc::new(EventHub::new()), LossFlag::default());
        let tasks = EventsTasks { hub: hub.clone(), inbox, lost: lost.clone(), redis };
        (Self { hub, outbox, lost }, tasks)
    }

    /// Publishes `message` without waiting.
    pub fn publish(&self, message: StreamMessage) {
        if self.outbox.try_send(message).is_err() {
            self.lost.record(1);
        }
    }

    /// Publishes an audit entry that was committed without a [`Change`](crate::change::Change).
    pub fn publish_entry(&self, entry: &NewAuditEntry, actor: Actor<'_>, now: Timestamp) {
        self.publish(StreamMessage::Event(Box::new(event_from_entry(entry, actor, now))));
    }

    /// Returns the hub of this process.
    pub fn hub(&self) -> &Arc<EventHub> {
        &self.hub
    }
}

impl LossFlag {
    fn record(&self, count: u64) {
        metrics::events_dropped(count);
        self.0.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl EventsTasks {
    /// Sends and reads until `stop`, then sends what is still queued. Cancel `stop` only after the last response was
    /// sent.
    pub async fn run(self, stop: CancellationToken) {
        let Self { hub, inbox, lost, redis } = self;
        let reading = stop.run_until_cancelled(reader::read(&hub, &redis));
        tokio::join!(reading, sender::send(inbox, &lost, &redis, &stop));
    }
}
