//! Events: what subscribers of an account receive, from the commit to the streams of this process.
//!
//! [`Change`](crate::change::Change) publishes what it has committed; one task appends it to a Redis stream
//! (`sender.rs`), one reads that stream for all clients of this process (`reader.rs`) into a [`Hub`], which keeps the
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

use live::{Redis, events::Message};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use self::{
    entry::{KIND_BILLING, KIND_DOMAIN_STATE, KIND_PUSH, of_entry, of_project, receipts},
    hub::{Following, Hub, News, Start, Told},
};
use crate::metrics;

/// The capacity of the send queue. When it is full, events are dropped.
const SEND_QUEUE: usize = 4_096;

/// A handle on the events. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    hub: Arc<Hub>,
    outbox: mpsc::Sender<Message>,
    lost: Lost,
}

/// Whether events were dropped and subscribers not reset yet. Clones share it.
#[derive(Debug, Clone, Default)]
struct Lost(Arc<AtomicBool>);

/// The tasks behind [`Events`], created together with it and run for the program's life.
pub struct EventsTasks {
    hub: Arc<Hub>,
    inbox: mpsc::Receiver<Message>,
    lost: Lost,
    redis: Redis,
}

impl Events {
    /// Creates the handle, and the tasks that must run for it to work.
    pub fn new(redis: Redis) -> (Self, EventsTasks) {
        let (outbox, inbox) = mpsc::channel(SEND_QUEUE);
        let (hub, lost) = (Arc::new(Hub::new()), Lost::default());
        let tasks = EventsTasks { hub: hub.clone(), inbox, lost: lost.clone(), redis };
        (Self { hub, outbox, lost }, tasks)
    }

    /// Publishes `message` without waiting.
    pub fn publish(&self, message: Message) {
        if self.outbox.try_send(message).is_err() {
            self.lost.record(1);
        }
    }

    /// Returns the hub of this process.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }
}

impl Lost {
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
