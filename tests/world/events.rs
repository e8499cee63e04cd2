//! Reads a stream of events as it arrives.

use std::time::Duration;

use reqwest::Response;
use serde_json::Value;

use super::{Actor, answer::Answer, request::Request};

/// The maximum wait for an event. It bounds a hang and asserts no speed.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct EventStream {
    /// The response without its body.
    pub head: Answer,
    response: Response,
    bytes: Vec<u8>,
    pub last_id: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Told {
    pub id: Option<String>,
    pub name: String,
    pub data: Value,
}

impl Actor {
    /// Follows events after the one with the id `last`, if given.
    pub async fn follow(&self, last: Option<&str>) -> EventStream {
        EventStream::open_after(self.get("/events"), last).await
    }
}

impl EventStream {
    /// Opens the stream of `request`, and reads until it begins.
    pub async fn open(request: Request) -> Self {
        let (head, response) = request.open().await;
        assert_eq!(head.status, 200, "{}", head.text());
        assert_eq!(head.header("content-type"), "text/event-stream");
        assert_eq!((head.header("cache-control"), head.header("x-accel-buffering")), ("no-store", "no"));
        Self { head, response: response.unwrap(), bytes: Vec::new(), last_id: None }
    }

    /// Opens the stream of `request` after the event with the id `last`, if given.
    pub async fn open_after(request: Request, last: Option<&str>) -> Self {
        Self::open(match last {
            Some(last) => request.header("last-event-id", last),
            None => request,
        })
        .await
    }

    /// Returns the next event, or `None` at the end of the stream. Keep-alive comments do not extend the wait.
    pub async fn next(&mut self) -> Option<Told> {
        tokio::time::timeout(PATIENCE, self.read_next()).await.expect("nothing is told")
    }

    async fn read_next(&mut self) -> Option<Told> {
        loop {
            while let Some(end) = self.bytes.windows(2).position(|pair| pair == b"\n\n") {
                let frame: Vec<u8> = self.bytes.drain(..end + 2).collect();
                if let Some(told) = self.read(&String::from_utf8(frame).unwrap()) {
                    return Some(told);
                }
            }
            self.bytes.extend_from_slice(&self.response.chunk().await.ok()??);
        }
    }

    /// Parses a frame as a browser does: a frame without data is not an event, but its id counts.
    fn read(&mut self, frame: &str) -> Option<Told> {
        let field = |name: &str| {
            let lines = frame.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix(": "));
            lines.map(str::to_owned).next_back()
        };
        let id = field("id");
        self.last_id = id.clone().or(self.last_id.take());
        let data = serde_json::from_str(&field("data")?).unwrap_or_else(|e| panic!("{e}: {frame}"));
        Some(Told { id, name: field("event").unwrap_or_default(), data })
    }

    /// Returns the next event that is not a receipt. Receipts of earlier changes may arrive at any time.
    pub async fn next_but_receipts(&mut self) -> Told {
        loop {
            let told = self.next().await.expect("the stream ended");
            if told.data["type"] != "receipt" {
                return told;
            }
        }
    }

    /// Reads up to an event of this type, and returns it.
    pub async fn until(&mut self, kind: &str) -> Told {
        loop {
            let told = self.next().await.unwrap_or_else(|| panic!("the stream ended without {kind}"));
            if told.data["type"] == kind || told.name == kind {
                return told;
            }
        }
    }

    /// Returns the types of the events up to one of type `last`.
    pub async fn types_until(&mut self, last: &str) -> Vec<String> {
        let mut types = Vec::new();
        loop {
            let told = self.next().await.unwrap_or_else(|| panic!("the stream ended without {last}: {types:?}"));
            types.push(told.data["type"].as_str().unwrap_or(&told.name).to_owned());
            if types.last().is_some_and(|kind| kind == last) {
                return types;
            }
        }
    }

    /// Asserts that the stream ends without further events.
    pub async fn assert_ends(&mut self) {
        let more = self.next().await;
        assert!(more.is_none(), "{more:?}");
    }
}
