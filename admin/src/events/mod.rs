//! Events: what is told to those who follow an account, from the commit to the streams of this process.
//!
//! [`Change`](crate::change::Change) publishes what it has committed; one task appends it to a Redis stream (`sender.rs`), one
//! reads the stream for all clients of this process (`reader.rs`) into a [`Hub`], which keeps the newest in memory. Publishing
//! never waits and never fails: what is lost on the way has every stream read anew. Not here: who may see what, which is for
//! `api/events`.

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

/// Events that wait to be sent. When the queue is full, they are dropped.
const SEND_QUEUE: usize = 4_096;

/// A handle on the events. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    hub: Arc<Hub>,
    outbox: mpsc::Sender<Message>,
    lost: Lost,
}

/// Whether events were dropped that nobody was told of yet. Clones share it.
#[derive(Debug, Clone, Default)]
struct Lost(Arc<AtomicBool>);

/// The tasks behind [`Events`]: made together with it, and run for the program's life.
pub struct EventsTasks {
    hub: Arc<Hub>,
    inbox: mpsc::Receiver<Message>,
    lost: Lost,
    redis: Redis,
}

impl Events {
    /// Makes the handle, and the tasks that have to run for it to be of use.
    pub fn new(redis: Redis) -> (Self, EventsTasks) {
        let (outbox, inbox) = mpsc::channel(SEND_QUEUE);
        let (hub, lost) = (Arc::new(Hub::new()), Lost::default());
        let tasks = EventsTasks { hub: hub.clone(), inbox, lost: lost.clone(), redis };
        (Self { hub, outbox, lost }, tasks)
    }

    /// Publishes `message`, without waiting.
    pub fn publish(&self, message: Message) {
        if self.outbox.try_send(message).is_err() {
            self.lost.record(1);
        }
    }

    /// The events of the process, as they come.
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
    /// Sends and reads until `stop`, then sends what still waits. Stop it after the last request was answered.
    pub async fn run(self, stop: CancellationToken) {
        let Self { hub, inbox, lost, redis } = self;
        let reading = stop.run_until_cancelled(reader::read(&hub, &redis));
        tokio::join!(reading, sender::send(inbox, &lost, &redis, &stop));
    }
}
