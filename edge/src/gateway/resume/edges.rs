//! Answers that another edge has: how edges ask each other for them.
//!
//! Questions and answers are messages on the channels of Redis that edges have of their own, which keeps none of them; each is sealed
//! with a key that edges alone have. An edge is asked for one piece after the other, from a place on: a message that is lost is asked for
//! again, and nobody is sent more than they take.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use live::{Redis, RedisError, answers::answers_channel};
use secrets::EdgeKey;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::oneshot,
    time::{interval, sleep, timeout},
};

use super::{
    kept::{Absent, End, Head, Piece},
    store::Store,
};
use crate::limits;

/// The way to other edges.
pub(super) struct Edges {
    pub(super) own: String,
    pub(super) redis: Redis,
    key: EdgeKey,
    asked: Mutex<HashMap<u64, oneshot::Sender<(Reply, Bytes)>>>,
    next: AtomicU64,
}

/// A message to an edge: a line of JSON, and after it the bytes of an answer.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    Question(Question),
    Reply(Reply),
}

/// Asks for a part of an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Question {
    id: u64,
    /// The edge that asks.
    from: String,
    /// The name of the answer.
    pub(super) name: String,
    /// The tag of the exchange.
    pub(super) tag: String,
    pub(super) at: Place,
}

/// A place in an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Place {
    /// At its start, or after the event with this id; together with its head.
    Begin(Option<String>),
    /// After so many bytes.
    At(u64),
}

/// What an edge says of an answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reply {
    id: u64,
    pub(super) found: PartFound,
    /// The head, where it was asked for.
    #[serde(default)]
    pub(super) head: Option<HeadText>,
    /// The place of the bytes that come with it.
    #[serde(default)]
    pub(super) at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum PartFound {
    /// There is nothing more yet.
    Nothing,
    /// Bytes.
    Bytes,
    /// The answer has ended well.
    End,
    /// The answer has ended badly.
    Aborted,
    /// There is no such answer any more, or no such place in it.
    Gone,
}

/// A head as text. Headers of ours are text.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HeadText {
    status: u16,
    headers: Vec<(String, String)>,
    is_stream: bool,
}

impl HeadText {
    fn of(head: &Head) -> Self {
        let text =
            |(name, value): (&HeaderName, &HeaderValue)| Some((name.to_string(), value.to_str().ok()?.to_owned()));
        let headers = head.headers.iter().filter_map(text).collect();
        Self { status: head.status.as_u16(), headers, is_stream: head.is_stream }
    }

    pub(super) fn parse(&self) -> Head {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_GATEWAY);
        let field = |(name, value): &(String, String)| {
            Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?))
        };
        let headers: HeaderMap = self.headers.iter().filter_map(field).collect();
        Head { status, headers, is_stream: self.is_stream }
    }
}

impl Edges {
    pub(super) fn new(own: String, redis: Redis, key: EdgeKey) -> Self {
        Self { own, redis, key, asked: Mutex::default(), next: AtomicU64::new(0) }
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<(Reply, Bytes)>>> {
        // Nothing panics while the lock is held.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A question for an exchange's answer.
    pub(super) fn question(&self, name: &str, tag: &str, at: Place) -> Question {
        let (name, tag) = (name.to_owned(), tag.to_owned());
        Question { id: 0, from: self.own.clone(), name, tag, at }
    }

    /// Asks an edge. Returns `None` if no reply comes.
    pub(super) async fn ask(&self, edge: &str, question: &Question) -> Option<(Reply, Bytes)> {
        /// Takes the question back.
        struct Asked<'e>(&'e Edges, u64);
        impl Drop for Asked<'_> {
            fn drop(&mut self) {
                self.0.asked().remove(&self.1);
            }
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = oneshot::channel();
        {
            let mut asked = self.asked();
            if asked.len() >= limits::EDGE_QUESTIONS {
                return None;
            }
            asked.insert(id, sender);
        }
        let _asked = Asked(self, id);
        self.send(edge, &Message::Question(Question { id, ..question.clone() }), &[]).await.ok()?;
        timeout(limits::EDGE_PATIENCE, reply).await.ok()?.ok()
    }

    async fn send(&self, edge: &str, message: &Message, bytes: &[u8]) -> Result<(), RedisError> {
        // It consists of strings and numbers, which cannot fail.
        let mut plain = serde_json::to_vec(message).unwrap_or_default();
        plain.push(b'\n');
        plain.extend_from_slice(bytes);
        let sealed = self.key.seal_for_edge(answers_channel(edge).as_bytes(), &plain);
        self.redis.tell_edge(edge, &sealed).await
    }

    /// Answers other edges from `store`, and takes their replies, for as long as it is polled.
    pub(super) async fn run(&self, store: &Store) {
        loop {
            // What is asked while Redis is away is asked again.
            if let Err(error) = self.listen(store).await {
                tracing::debug!(%error, "other edges cannot ask for answers");
            }
            store.forget_old();
            sleep(limits::EDGE_LISTEN_RETRY).await;
        }
    }

    async fn listen(&self, store: &Store) -> Result<(), RedisError> {
        let channel = answers_channel(&self.own);
        let Ok(subscriber) = timeout(limits::SUBSCRIBE_WAIT, self.redis.subscriber()).await else { return Ok(()) };
        let mut subscriber = subscriber?;
        subscriber.subscribe(&channel).await?;
        let mut messages = subscriber.into_on_message();
        let (mut answering, mut every) = (FuturesUnordered::new(), interval(limits::ANSWERS_LOOK_EVERY));
        loop {
            let message = tokio::select! {
                message = messages.next() => message,
                Some(()) = answering.next() => continue,
                _ = every.tick() => {
                    store.forget_old();
                    continue;
                }
            };
            let Some(message) = message else { return Ok(()) };
            let Ok(plain) = self.key.open_from_edge(channel.as_bytes(), message.get_payload_bytes()) else { continue };
            let line = plain.iter().position(|byte| *byte == b'\n').unwrap_or(plain.len());
            match serde_json::from_slice(plain.get(..line).unwrap_or_default()) {
                Ok(Message::Question(question)) if answering.len() < limits::EDGE_ANSWERS => {
                    answering.push(self.reply(store, question));
                }
                Ok(Message::Reply(reply)) => {
                    if let Some(asked) = self.asked().remove(&reply.id) {
                        let start = plain.len().min(line + 1);
                        let _ = asked.send((reply, Bytes::from(plain).slice(start..)));
                    }
                }
                // It is asked again.
                Ok(Message::Question(_)) => {}
                Err(error) => tracing::debug!(%error, "a message of another edge cannot be read"),
            }
        }
    }

    async fn reply(&self, store: &Store, question: Question) {
        let (reply, bytes) = timeout(limits::EDGE_PIECE_WAIT, find(store, &question)).await.unwrap_or_else(|_| {
            (Reply { id: question.id, found: PartFound::Nothing, head: None, at: 0 }, Bytes::new())
        });
        if let Err(error) = self.send(&question.from, &Message::Reply(reply), &bytes).await {
            tracing::debug!(%error, "another edge cannot be answered");
        }
    }
}

/// What there is of an answer at a place, as soon as there is something.
async fn find(store: &Store, Question { id, name, tag, at, .. }: &Question) -> (Reply, Bytes) {
    let reply = |found, head, at, bytes| (Reply { id: *id, found, head, at }, bytes);
    let gone = || reply(PartFound::Gone, None, 0, Bytes::new());
    let Some(kept) = store.find(name).filter(|kept| kept.claim.tag == *tag) else { return gone() };
    let (head, at) = match at {
        Place::At(at) => (None, *at),
        Place::Begin(event) => {
            let head = match kept.head().await {
                Ok(head) => HeadText::of(&head),
                Err(Absent::Claimed(_) | Absent::Unknown | Absent::Void) => return gone(),
            };
            let at = event.as_deref().map_or(Some(0), |event| kept.place_after(event));
            let Some(at) = at else { return gone() };
            (Some(head), at)
        }
    };
    // A head does not wait for bytes: the client waits for it.
    let piece = if head.is_some() { kept.next(at).now_or_never() } else { Some(kept.next(at).await) };
    match piece {
        None => reply(PartFound::Nothing, head, at, Bytes::new()),
        Some(Piece::Bytes(bytes)) => reply(PartFound::Bytes, head, at, bytes),
        Some(Piece::End(End::Whole)) => reply(PartFound::End, head, at, Bytes::new()),
        Some(Piece::End(End::Aborted)) => reply(PartFound::Aborted, head, at, Bytes::new()),
        Some(Piece::Lost) => gone(),
    }
}
