//! The newest events of the platform in memory, and their way to the streams of this process.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use domain::UserId;
use live::events::{Event, EventId, Message, Sent};
use tokio::sync::{Notify, broadcast};

use crate::metrics;

/// Events kept for streams that are resumed. An event has half a kilobyte.
pub(super) const KEPT: usize = 4_096;
/// Events by which a stream may be behind before it is told to look again.
const LAG: usize = 1_024;

/// The newest events, and those who wait for the next.
pub struct Hub {
    state: Mutex<State>,
    sender: broadcast::Sender<Arc<Told>>,
    /// Woken when events can be read for the first time.
    begun: Notify,
}

#[derive(Default)]
struct State {
    /// The id of the entry before those that are kept.
    floor: Option<EventId>,
    kept: VecDeque<Arc<Told>>,
}

/// An entry of the stream as the streams of this process get it.
#[derive(Debug)]
pub struct Told {
    /// Its id.
    pub id: EventId,
    /// The content of the entry.
    pub news: News,
}

/// The content of an entry.
#[derive(Debug)]
pub enum News {
    /// Something happened. The frames are what streams send of it, made by the first that does: for every member of an org, and
    /// for those who may see all of it.
    Event(Box<Event>, [std::sync::OnceLock<Bytes>; 2]),
    /// A session or token of the person may have ended.
    Credentials(UserId),
    /// Entries may be missing before the next one.
    Reset,
    /// Nothing that concerns anybody.
    Nothing,
}

/// The place from which a stream begins.
pub enum Start {
    /// Behind the newest entry; none while events cannot be read.
    Now(Option<EventId>),
    /// Behind the entry that was asked for: these came since.
    After(Vec<Arc<Told>>),
    /// The entry that was asked for is not known here. It may be newer than the newest, whose id this is.
    Unknown(Option<EventId>),
}

/// The entries as they come.
pub type Following = broadcast::Receiver<Arc<Told>>;

impl Hub {
    pub(super) fn new() -> Self {
        let (sender, _) = broadcast::channel(LAG);
        Self { state: Mutex::default(), sender, begun: Notify::new() }
    }

    /// Returns the id of the newest entry; none before events could be read.
    pub fn newest(&self) -> Option<EventId> {
        let state = self.state();
        state.kept.back().map(|told| told.id).or(state.floor)
    }

    /// Waits until events can be read.
    pub async fn begun(&self) {
        loop {
            let mut begun = std::pin::pin!(self.begun.notified());
            begun.as_mut().enable();
            if self.newest().is_some() {
                return;
            }
            begun.await;
        }
    }

    /// Begins to follow, behind the entry `last` if there is one. No entry is missed in between, and none comes twice.
    pub fn follow(&self, last: Option<EventId>) -> (Start, Following) {
        let state = self.state();
        let following = self.sender.subscribe();
        let newest = state.kept.back().map(|told| told.id).or(state.floor);
        let start = match last {
            None => Start::Now(newest),
            Some(last) if state.floor == Some(last) => Start::After(state.kept.iter().cloned().collect()),
            Some(last) => match state.kept.binary_search_by_key(&last, |told| told.id) {
                Ok(at) => Start::After(state.kept.iter().skip(at + 1).cloned().collect()),
                Err(_) => Start::Unknown(newest),
            },
        };
        (start, following)
    }

    /// Takes in an entry that follows the newest.
    pub(super) fn push(&self, sent: Sent) {
        let told = Arc::new(Told::from(sent));
        let mut state = self.state();
        if matches!(told.news, News::Reset) {
            metrics::events_reset();
            // What was before it is of no use: whoever missed it has to look again.
            state.kept.clear();
            state.floor = Some(told.id);
        } else {
            if state.kept.len() == KEPT {
                state.floor = state.kept.pop_front().map(|oldest| oldest.id);
            }
            state.kept.push_back(told.clone());
        }
        // Nobody may follow.
        let _ = self.sender.send(told);
    }

    /// Puts `latest`, all that the stream has, in the place of what was known. Whoever follows is told to look again.
    pub(super) fn restart(&self, latest: Vec<Sent>) {
        let mut state = self.state();
        let Some(newest) = latest.last().map(|sent| sent.id) else { return };
        state.kept = latest.into_iter().map(|sent| Arc::new(Told::from(sent))).collect();
        // Those before a loss cannot be resumed from.
        if let Some(at) = state.kept.iter().rposition(|told| matches!(told.news, News::Reset)) {
            let floor = state.kept.drain(..=at).next_back().map(|reset| reset.id);
            state.floor = floor;
        } else {
            state.floor = None;
        }
        metrics::events_reset();
        let _ = self.sender.send(Arc::new(Told { id: newest, news: News::Reset }));
        self.begun.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Sent> for Told {
    fn from(Sent { id, message }: Sent) -> Self {
        let news = match message {
            Message::Event(event) => News::Event(event, Default::default()),
            Message::Credentials { user } => News::Credentials(user),
            Message::Lost => News::Reset,
            Message::Began | Message::Unknown => News::Nothing,
        };
        Self { id, news }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(id: &str, message: Message) -> Sent {
        Sent { id: id.parse().unwrap(), message }
    }

    fn ids(start: &Start) -> Option<Vec<String>> {
        match start {
            Start::After(missed) => Some(missed.iter().map(|told| told.id.to_string()).collect()),
            Start::Now(_) | Start::Unknown(_) => None,
        }
    }

    #[test]
    fn a_stream_is_resumed_behind_an_entry_that_is_known() {
        let hub = Hub::new();
        assert!(matches!(hub.follow(None).0, Start::Now(None)));
        hub.restart(vec![sent("1-0", Message::Began), sent("2-0", Message::Unknown)]);
        hub.push(sent("3-0", Message::Unknown));
        let last = |id: &str| Some(id.parse().unwrap());
        assert_eq!(ids(&hub.follow(last("1-0")).0).unwrap(), ["2-0", "3-0"]);
        assert_eq!(ids(&hub.follow(last("3-0")).0).unwrap(), [""; 0]);
        for unknown in ["0-1", "2-1", "9-0"] {
            assert!(matches!(hub.follow(last(unknown)).0, Start::Unknown(Some(_))), "{unknown}");
        }
        assert!(matches!(hub.follow(None).0, Start::Now(newest) if newest == last("3-0")));
    }

    #[test]
    fn nothing_is_resumed_from_before_a_loss() {
        let hub = Hub::new();
        hub.restart(vec![sent("1-0", Message::Began)]);
        let (_, mut following) = hub.follow(None);
        hub.push(sent("2-0", Message::Lost));
        hub.push(sent("3-0", Message::Unknown));
        assert!(matches!(following.try_recv().unwrap().news, News::Reset));
        let last = |id: &str| Some(id.parse().unwrap());
        assert!(matches!(hub.follow(last("1-0")).0, Start::Unknown(_)));
        assert_eq!(ids(&hub.follow(last("2-0")).0).unwrap(), ["3-0"]);
        // Another process begins with the same entries.
        let other = Hub::new();
        other.restart(vec![sent("1-0", Message::Began), sent("2-0", Message::Lost), sent("3-0", Message::Unknown)]);
        assert!(matches!(other.follow(last("1-0")).0, Start::Unknown(_)));
        assert_eq!(ids(&other.follow(last("2-0")).0).unwrap(), ["3-0"]);
    }

    #[test]
    fn the_newest_are_kept_and_those_before_them_are_forgotten() {
        let hub = Hub::new();
        hub.restart(vec![sent("1-0", Message::Began)]);
        for number in 0..KEPT {
            hub.push(sent(&format!("2-{number}"), Message::Unknown));
        }
        let last = |id: &str| Some(id.parse().unwrap());
        // The one before those that are kept is known still.
        assert_eq!(ids(&hub.follow(last("1-0")).0).unwrap().len(), KEPT);
        hub.push(sent("3-0", Message::Unknown));
        assert!(matches!(hub.follow(last("1-0")).0, Start::Unknown(_)));
        assert_eq!(ids(&hub.follow(last("2-0")).0).unwrap().len(), KEPT);
    }
}
