//! Finds and parses single events in a byte stream.

use std::ops::Range;

use memchr::memchr2;

/// The state of a search for the end of an event.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventSearch {
    /// The start of the current line.
    line: usize,
    /// The end of the bytes searched so far.
    at: usize,
}

impl EventSearch {
    /// Returns the length of the first event in `text`, including its empty line, or `None` if its end has not arrived.
    /// Lines end in LF, CR LF or CR. Calling it again for the same event continues the search.
    pub fn end_of_event(&mut self, text: &[u8]) -> Option<usize> {
        loop {
            let rest = text.get(self.at..)?;
            let Some(found) = memchr2(b'\n', b'\r', rest) else {
                self.at = text.len();
                return None;
            };
            let end = self.at + found;
            let next = match (text.get(end), text.get(end + 1)) {
                (Some(b'\r'), Some(b'\n')) => end + 2,
                // The CR may be the first half of a CR LF.
                (Some(b'\r'), None) => {
                    self.at = end;
                    return None;
                }
                _ => end + 1,
            };
            if end == self.line {
                return Some(next);
            }
            *self = Self { line: next, at: next };
        }
    }
}

/// A parsed event, with the properties that decide whether it passes to the client.
pub struct SseEvent {
    /// The values of its `data` lines.
    pub data: EventData,
    /// Whether the event is named `error`.
    pub is_error: bool,
    /// Whether every line is a comment or a standard event field.
    pub is_valid: bool,
    /// Whether some lines do not pass: `id`, `retry` and empty data, which make some clients report a nonexistent
    /// event.
    pub(crate) is_odd: bool,
}

/// The data of an event, which is copied only if it has several lines.
pub enum EventData {
    /// No data, or only spaces; the event may be a comment.
    None,
    /// The usual single line: the position of its value in the event.
    Line(Range<usize>),
    /// Several lines, joined.
    Lines(Vec<u8>),
}

impl EventData {
    /// Returns the data, given the text of the same `event`; empty if it has none.
    pub fn bytes<'d>(&'d self, event: &'d [u8]) -> &'d [u8] {
        match self {
            Self::None => &[],
            Self::Line(span) => event.get(span.clone()).unwrap_or_default(),
            Self::Lines(joined) => joined,
        }
    }
}

impl SseEvent {
    /// Parses one event, whose lines may end in LF, CR LF or CR. A line that is no field only clears `is_valid`.
    pub fn parse(event: &[u8]) -> Self {
        let mut parsed = Self { data: EventData::None, is_error: false, is_valid: true, is_odd: false };
        let mut start = 0;
        while start < event.len() {
            let rest = event.get(start..).unwrap_or_default();
            let len = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
            let line = rest.get(..len).unwrap_or_default();
            if let Some(value) = line.strip_prefix(b"data:") {
                let value = value.strip_prefix(b" ").unwrap_or(value);
                parsed.add_data(event, start + len - value.len()..start + len);
            } else if let Some(kind) = line.strip_prefix(b"event:") {
                parsed.is_error |= kind.trim_ascii().eq_ignore_ascii_case(b"error");
            } else {
                let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
                // A comment has no name before its colon.
                parsed.is_valid &= matches!(name, b"" | b"data" | b"event" | b"id" | b"retry");
                parsed.is_odd |= !name.is_empty();
            }
            start += len + 1;
        }
        parsed
    }

    fn add_data(&mut self, event: &[u8], span: Range<usize>) {
        let value = event.get(span.clone()).unwrap_or_default();
        // Insignificant in JSON.
        if value.trim_ascii().is_empty() {
            self.is_odd = true;
            return;
        }
        self.data = match std::mem::replace(&mut self.data, EventData::None) {
            EventData::None => EventData::Line(span),
            EventData::Line(first) => EventData::Lines([event.get(first).unwrap_or_default(), b" ", value].concat()),
            EventData::Lines(mut lines) => {
                // The standard joins lines with a line feed, which is equivalent to a space in JSON.
                lines.push(b' ');
                lines.extend_from_slice(value);
                EventData::Lines(lines)
            }
        };
    }
}

/// Keeps only the lines that every client understands: comments and, if there is data, the event's name and the data.
/// Otherwise the result is empty.
pub(crate) fn without_odd_lines(event: &[u8], has_data: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(event.len());
    for line in event.split(|byte| matches!(byte, b'\n' | b'\r')) {
        let passes = match line.iter().position(|byte| *byte == b':') {
            Some(0) => true,
            Some(colon) => {
                let (name, value) = line.split_at(colon);
                has_data
                    && (name == b"event"
                        || name == b"data" && !value.get(1..).unwrap_or_default().trim_ascii().is_empty())
            }
            None => false,
        };
        if passes {
            out.extend_from_slice(line);
            out.push(b'\n');
        }
    }
    if !out.is_empty() {
        out.push(b'\n');
    }
    out
}
