//! The data of events that [`Frames`](super::Frames) has written.

use std::borrow::Cow;

use super::event::{Data, Event, Search};

/// The data of whole events, as [`Frames`](super::Frames) writes them: frames, and `[DONE]`. Comments are skipped.
pub(in crate::gateway) fn payloads(events: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut rest = events;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            // The last one may end in a CR, which the search takes for the first half of a line's end.
            let len = Search::default().end_of_event(rest).unwrap_or(rest.len());
            let (event, others) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            rest = others;
            match Event::parse(event).data {
                Data::None => {}
                Data::Line(span) => return Some(Cow::Borrowed(event.get(span)?)),
                Data::Lines(joined) => return Some(Cow::Owned(joined)),
            }
        }
        None
    })
}
