//! The newest events of the platform, in memory, and their distribution to the event streams of this process.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use domain::UserId;
use live::events::{AccountEvent, EventId, StreamEntry, StreamMessage};
use tokio::sync::{Notify, broadcast};

use crate::metrics;

/// The number of events kept for resumed streams. An event takes half a kilobyte.
pub(super) const KEPT: usize = 4_096;
/// The number of events that a stream may lag behind before it is reset.
const LAG: usize = 1_024;

/// The newest events, and the subscribers that wait for the next.
pub struct EventHub {
    state: Mutex<HubState>,
    sender: broadcast::Sender<Arc<StoredEvent>>,
    /// Notified when events can be read for the first time.
    begun: Notify,
}

#[derive(Default)]
struct HubState {
    /// The id of the entry before the oldest kept one.
    floor: Option<EventId>,
    kept: VecDeque<Arc<StoredEvent>>,
}

/// A stored event as the streams of this process receive it.
#[derive(Debug)]
pub struct StoredEvent {
    /// The id of the entry.
    pub id: EventId,
    /// The content of the entry.
    pub news: EventContent,
}

/// The content of an entry.
#[derive(Debug)]
pub enum EventContent {
    /// An event, with the two frames that streams send for it: one for every member of an organization, one for those
    /// who may see all of it. The first stream that needs a frame encodes it.
    Event(Box<AccountEvent>, [std::sync::OnceLock<Bytes>; 2]),
    /// A session or token of this person may have ended.
    Credentials(UserId),
    /// Entries may be missing before the next one.
    Reset,
    /// An entry without meaning for streams.
    Nothing,
}

/// The position at which a stream begins.
pub enum StreamPosition {
    /// After the newest entry, whose id this is; `None` while events cannot be read.
    Now(Option<EventId>),
    /// After the requested entry: these entries followed it.
    After(Vec<Arc<StoredEvent>>),
    /// The requested entry is not kept here, or is newer than the newest entry, whose id this is.
    Unknown(Option<EventId>),
}

/// The receiver of new entries.
pub type EventReceiver = broadcast::Receiver<Arc<StoredEvent>>;

impl EventHub {
    pub(super) fn new() -> Self {
        let (sender, _) = broadcast::channel(LAG);
        Self { state: Mutex::default(), sender, begun: Notify::new() }
    }

    /// Returns the id of the newest entry; `None` before events can be read.
    pub fn newest(&self) -> Option<EventId> {
        let state = self.state();
        state.kept.back().map(|told| told.id).or(state.floor)
    }

    /// Waits until events can be read.
    pub async fn wait_ready(&self) {
        loop {
            let mut begun = std::pin::pin!(self.begun.notified());
            begun.as_mut().enable();
            if self.newest().is_some() {
                return;
            }
            begun.await;
        }
    }

    /// Subscribes, after the entry `last` if it is given, without missing or repeating an entry in between.
    pub fn subscribe(&self, last: Option<EventId>) -> (StreamPosition, EventReceiver) {
        let state = self.state();
        let following = self.sender.subscribe();
        let newest = state.kept.back().map(|told| told.id).or(state.floor);
        let start = match last {
            None => StreamPosition::Now(newest),
            Some(last) if state.floor == Some(last) => StreamPosition::After(state.kept.iter().cloned().collect()),
            Some(last) => match state.kept.binary_search_by_key(&last, |told| told.id) {
                Ok(at) => StreamPosition::After(state.kept.iter().skip(at + 1).cloned().collect()),
                Err(_) => StreamPosition::Unknown(newest),
            },
        };
        (start, following)
    }

    /// Appends an entry, which follows the newest.
    pub(super) fn push(&self, sent: StreamEntry) {
        let told = Arc::new(StoredEvent::from(sent));
        let mut state = self.state();
        if matches!(told.news, EventContent::Reset) {
            metrics::events_reset();
            // Earlier entries are useless: a stream that missed this one must reload.
            state.kept.clear();
            state.floor = Some(told.id);
        } else {
            if state.kept.len() == KEPT {
                state.floor = state.kept.pop_front().map(|oldest| oldest.id);
            }
            state.kept.push_back(told.clone());
        }
        // There may be no subscriber.
        let _ = self.sender.send(told);
    }

    /// Replaces the kept entries by `latest`, everything that the Redis stream has. Subscribers are reset.
    pub(super) fn restart(&self, latest: Vec<StreamEntry>) {
        let mut state = self.state();
        let Some(newest) = latest.last().map(|sent| sent.id) else { return };
        state.kept = latest.into_iter().map(|sent| Arc::new(StoredEvent::from(sent))).collect();
        // A stream cannot resume from before a loss.
        if let Some(at) = state.kept.iter().rposition(|told| matches!(told.news, EventContent::Reset)) {
            let floor = state.kept.drain(..=at).next_back().map(|reset| reset.id);
            state.floor = floor;
        } else {
            state.floor = None;
        }
        metrics::events_reset();
        let _ = self.sender.send(Arc::new(StoredEvent { id: newest, news: EventContent::Reset }));
        self.begun.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<StreamEntry> for StoredEvent {
    fn from(StreamEntry { id, message }: StreamEntry) -> Self {
        let news = match message {
            StreamMessage::Event(event) => EventContent::Event(event, Default::default()),
            StreamMessage::Credentials { user } => EventContent::Credentials(user),
            StreamMessage::Lost => EventContent::Reset,
            StreamMessage::Began | StreamMessage::Unknown => EventContent::Nothing,
        };
        Self { id, news }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(id: &str, message: StreamMessage) -> StreamEntry {
        StreamEntry { id: id.parse().unwrap(), message }
    }

    fn ids(start: &StreamPosition) -> Option<Vec<String>> {
        match start {
            StreamPosition::After(missed) => Some(missed.iter().map(|told| told.id.to_string()).collect()),
            StreamPosition::Now(_) | StreamPosition::Unknown(_) => None,
        }
    }

    #[test]
    fn a_stream_is_resumed_behind_an_entry_that_is_known() {
        let hub = EventHub::new();
        assert!(matches!(hub.subscribe(None).0, StreamPosition::Now(None)));
        hub.restart(vec![sent("1-0", StreamMessage::Began), sent("2-0", StreamMessage::Unknown)]);
        hub.push(sent("3-0", StreamMessage::Unknown));
        let last = |id: &str| Some(id.parse().unwrap());
        assert_eq!(ids(&hub.subscribe(last("1-0")).0).unwrap(), ["2-0", "3-0"]);
        assert_eq!(ids(&hub.subscribe(last("3-0")).0).unwrap(), [""; 0]);
        for unknown in ["0-1", "2-1", "9-0"] {
            assert!(matches!(hub.subscribe(last(unknown)).0, StreamPosition::Unknown(Some(_))), "{unknown}");
        }
        assert!(matches!(hub.subscribe(None).0, StreamPosition::Now(newest) if newest == last("3-0")));
    }

    #[test]
    fn nothing_is_resumed_from_before_a_loss() {
        let hub = EventHub::new();
        hub.restart(vec![sent("1-0", StreamMessage::Began)]);
        let (_, mut following) = hub.subscribe(None);
        hub.push(sent("2-0", StreamMessage::Lost));
        hub.push(sent("3-0", StreamMessage::Unknown));
        assert!(matches!(following.try_recv().unwrap().news, EventContent::Reset));
        let last = |id: &str| Some(id.parse().unwrap());
        assert!(matches!(hub.subscribe(last("1-0")).0, StreamPosition::Unknown(_)));
        assert_eq!(ids(&hub.subscribe(last("2-0")).0).unwrap(), ["3-0"]);
        // Another process starts with the same entries.
        let other = EventHub::new();
        other.restart(vec![
            sent("1-0", StreamMessage::Began),
            sent("2-0", StreamMessage::Lost),
            sent("3-0", StreamMessage::Unknown),
        ]);
        assert!(matches!(other.subscribe(last("1-0")).0, StreamPosition::Unknown(_)));
        assert_eq!(ids(&other.subscribe(last("2-0")).0).unwrap(), ["3-0"]);
    }

    #[test]
    fn the_newest_are_kept_and_those_before_them_are_forgotten() {
        let hub = EventHub::new();
        hub.restart(vec![sent("1-0", StreamMessage::Began)]);
        for number in 0..KEPT {
            hub.push(sent(&format!("2-{number}"), StreamMessage::Unknown));
        }
        let last = |id: &str| Some(id.parse().unwrap());
        // The entry before the oldest kept one is still known.
        assert_eq!(ids(&hub.subscribe(last("1-0")).0).unwrap().len(), KEPT);
        hub.push(sent("3-0", StreamMessage::Unknown));
        assert!(matches!(hub.subscribe(last("1-0")).0, StreamPosition::Unknown(_)));
        assert_eq!(ids(&hub.subscribe(last("2-0")).0).unwrap().len(), KEPT);
    }
}
