//! The API's stream of events.

use std::{collections::VecDeque, time::Duration};

use api::events::ChangeEvent;
use reqwest::Response;

use super::{Client, lines::LineBuffer};

const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum silence; the API sends a comment every 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);
const LINE_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct EventStream {
    response: Response,
    lines: LineBuffer,
    ready: VecDeque<StreamEvent>,
    name: String,
    data: String,
}

#[derive(Debug)]
pub(crate) enum StreamEvent {
    Change(Box<ChangeEvent>),
    /// Events may have been lost before the next one.
    Reset,
}

impl Client {
    /// Opens the stream of events. Returns `None` if it is refused or unreachable; callers can poll instead.
    pub(crate) async fn events(&self) -> Option<EventStream> {
        // Without the timeout of other calls, because the stream does not end.
        let request = self.http.get(self.url("/events").ok()?).bearer_auth(self.token.as_ref()?);
        let response = tokio::time::timeout(OPEN_TIMEOUT, request.send()).await.ok()?.ok()?;
        let is_stream = response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream");
        (response.status().is_success() && is_stream).then(|| EventStream {
            response,
            lines: LineBuffer::default(),
            ready: VecDeque::new(),
            name: String::new(),
            data: String::new(),
        })
    }
}

impl EventStream {
    /// Waits for the next event. Returns `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some(news) = self.ready.pop_front() {
                return Some(news);
            }
            let bytes = tokio::time::timeout(SILENCE, self.response.chunk()).await.ok()?.ok()??;
            self.lines.push(&bytes);
            while let Some(line) = self.lines.next() {
                self.read(&line);
            }
            // An event may consist of many lines.
            if self.lines.len() > LINE_BYTES || self.data.len() > LINE_BYTES {
                return None;
            }
        }
    }

    fn read(&mut self, line: &str) {
        self.ready.extend(read_line(line, &mut self.name, &mut self.data));
    }
}

/// Reads one line. Returns the event if the line is empty, which ends it.
fn read_line(line: &str, name: &mut String, data: &mut String) -> Option<StreamEvent> {
    if let Some(value) = line.strip_prefix("event:") {
        value.trim().clone_into(name);
    } else if let Some(value) = line.strip_prefix("data:") {
        data.push_str(value.trim());
    } else if line.is_empty() {
        let (name, data) = (std::mem::take(name), std::mem::take(data));
        return match name.as_str() {
            "change" => serde_json::from_str(&data).ok().map(|event| StreamEvent::Change(Box::new(event))),
            "reset" => Some(StreamEvent::Reset),
            _ => None,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_line_by_line() {
        let text = "retry: 1000\n: connected\nid: 1-0\n\nid: 2-0\nevent: change\ndata: {\"type\":\"receipt\",\"account\":\"ada\",\
                    \"project\":null,\"subject\":null,\"by\":null,\"at\":\"2026-01-02T03:04:05.678Z\",\"detail\":{}}\n\n\
                    : keep-alive\n\nevent: reset\ndata: {}\n\nevent: weather\ndata: {}\n\n";
        let (mut name, mut data) = (String::new(), String::new());
        let news: Vec<_> = text.lines().filter_map(|line| read_line(line, &mut name, &mut data)).collect();
        assert!(
            matches!(&news[..], [StreamEvent::Change(event), StreamEvent::Reset] if event.kind == "receipt"),
            "{news:?}"
        );
    }
}
