//! The data of events written by [`ChatFrames`](super::ChatFrames).

use std::borrow::Cow;

use super::event::{EventData, EventSearch, SseEvent};

/// Iterates over the data of complete events from [`ChatFrames`](super::ChatFrames): frames and `[DONE]`, without comments.
pub fn payloads(events: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut rest = events;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            // The last event may end in a CR, which the search takes for half of a line ending.
            let len = EventSearch::default().end_of_event(rest).unwrap_or(rest.len());
            let (event, others) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            rest = others;
            match SseEvent::parse(event).data {
                EventData::None => {}
                EventData::Line(span) => return Some(Cow::Borrowed(event.get(span)?)),
                EventData::Lines(joined) => return Some(Cow::Owned(joined)),
            }
        }
        None
    })
}
