//! The API's stream of events.

use std::{collections::VecDeque, time::Duration};

use api::events::ChangeEvent;
use reqwest::Response;

use super::{Client, lines::Lines};

/// Longest wait for the stream to begin.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest silence. A comment comes every 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);
/// Most bytes of one line; the API sends no longer ones.
const LINE_BYTES: usize = 256 * 1024;

/// A stream of events that is open.
#[derive(Debug)]
pub(crate) struct Events {
    response: Response,
    lines: Lines,
    ready: VecDeque<News>,
    /// The name of the event whose lines are being read.
    name: String,
    data: String,
}

/// An event of the stream.
#[derive(Debug)]
pub(crate) enum News {
    /// Something happened.
    Change(Box<ChangeEvent>),
    /// Events may be missing before the next one.
    Reset,
}

impl Client {
    /// Opens the stream of events; none when it is refused or cannot be reached. Whoever wants to know something can ask again
    /// and again instead.
    pub(crate) async fn events(&self) -> Option<Events> {
        // Without the limit of other calls: the answer goes on.
        let request = self.http.get(self.url("/events").ok()?).bearer_auth(self.token.as_ref()?);
        let response = tokio::time::timeout(OPEN_TIMEOUT, request.send()).await.ok()?.ok()?;
        let is_stream = response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream");
        (response.status().is_success() && is_stream).then(|| Events {
            response,
            lines: Lines::default(),
            ready: VecDeque::new(),
            name: String::new(),
            data: String::new(),
        })
    }
}

impl Events {
    /// Waits for the next event; none when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<News> {
        loop {
            if let Some(news) = self.ready.pop_front() {
                return Some(news);
            }
            let bytes = tokio::time::timeout(SILENCE, self.response.chunk()).await.ok()?.ok()??;
            self.lines.push(&bytes);
            while let Some(line) = self.lines.next() {
                self.read(&line);
            }
            // An event may have many lines of data.
            if self.lines.len() > LINE_BYTES || self.data.len() > LINE_BYTES {
                return None;
            }
        }
    }

    fn read(&mut self, line: &str) {
        self.ready.extend(read_line(line, &mut self.name, &mut self.data));
    }
}

/// Reads one line. Returns the event that an empty one ends.
fn read_line(line: &str, name: &mut String, data: &mut String) -> Option<News> {
    if let Some(value) = line.strip_prefix("event:") {
        value.trim().clone_into(name);
    } else if let Some(value) = line.strip_prefix("data:") {
        data.push_str(value.trim());
    } else if line.is_empty() {
        let (name, data) = (std::mem::take(name), std::mem::take(data));
        return match name.as_str() {
            "change" => serde_json::from_str(&data).ok().map(|event| News::Change(Box::new(event))),
            "reset" => Some(News::Reset),
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
        assert!(matches!(&news[..], [News::Change(event), News::Reset] if event.kind == "receipt"), "{news:?}");
    }
}
