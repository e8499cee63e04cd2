//! Fetches answers from other edges.
//!
//! Questions and replies are messages on each edge's own Redis channel, where they are not stored. Each is sealed with
//! a key that only edges have. An answer is requested piece by piece from a position on: lost messages are requested
//! again, and no edge receives more than it can take.

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
    kept::{AbsentReason, AnswerEnd, AnswerHead, AnswerPiece},
    store::AnswerStore,
};

/// The connection to other edges.
pub(super) struct EdgeExchange {
    pub(super) own: String,
    pub(super) redis: Redis,
    key: EdgeKey,
    asked: Mutex<HashMap<u64, oneshot::Sender<(PartReply, Bytes)>>>,
    next: AtomicU64,
}

/// A message to an edge: a line of JSON, followed by bytes of an answer.
#[derive(Debug, Serialize, Deserialize)]
enum EdgeMessage {
    Question(PartQuestion),
    Reply(PartReply),
}

/// Requests a part of an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PartQuestion {
    id: u64,
    /// The requesting edge.
    from: String,
    pub(super) name: String,
    pub(super) tag: String,
    pub(super) at: AnswerPosition,
}

/// A position in an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum AnswerPosition {
    /// The start, or after the event with this id; the reply includes the head.
    Begin(Option<String>),
    /// After this many bytes.
    At(u64),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PartReply {
    id: u64,
    pub(super) found: PartFound,
    #[serde(default)]
    pub(super) head: Option<HeadText>,
    /// The position of the bytes that follow.
    #[serde(default)]
    pub(super) at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum PartFound {
    /// The answer has no more bytes yet.
    Nothing,
    Bytes,
    End,
    Aborted,
    /// The answer, or the position in it, no longer exists.
    Gone,
}

/// A head as text. The gateway's own headers are text.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HeadText {
    status: u16,
    headers: Vec<(String, String)>,
    is_stream: bool,
}

impl HeadText {
    fn from_head(head: &AnswerHead) -> Self {
        let text =
            |(name, value): (&HeaderName, &HeaderValue)| Some((name.to_string(), value.to_str().ok()?.to_owned()));
        let headers = head.headers.iter().filter_map(text).collect();
        Self { status: head.status.as_u16(), headers, is_stream: head.is_stream }
    }

    pub(super) fn parse(&self) -> AnswerHead {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_GATEWAY);
        let field = |(name, value): &(String, String)| {
            Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?))
        };
        let headers: HeaderMap = self.headers.iter().filter_map(field).collect();
        AnswerHead { status, headers, is_stream: self.is_stream }
    }
}

impl EdgeExchange {
    pub(super) fn new(own: String, redis: Redis, key: EdgeKey) -> Self {
        Self { own, redis, key, asked: Mutex::default(), next: AtomicU64::new(0) }
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<(PartReply, Bytes)>>> {
        // The code under this lock does not panic.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn question(&self, name: &str, tag: &str, at: AnswerPosition) -> PartQuestion {
        let (name, tag) = (name.to_owned(), tag.to_owned());
        PartQuestion { id: 0, from: self.own.clone(), name, tag, at }
    }

    /// Sends a question to an edge. Returns `None` if there is no reply.
    pub(super) async fn send_question(&self, edge: &str, question: &PartQuestion) -> Option<(PartReply, Bytes)> {
        /// Removes the question on drop.
        struct QuestionGuard<'e>(&'e EdgeExchange, u64);
        impl Drop for QuestionGuard<'_> {
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
        let _asked = QuestionGuard(self, id);
        self.send(edge, &EdgeMessage::Question(PartQuestion { id, ..question.clone() }), &[]).await.ok()?;
        timeout(limits::EDGE_QUERY_TIMEOUT, reply).await.ok()?.ok()
    }

    async fn send(&self, edge: &str, message: &EdgeMessage, bytes: &[u8]) -> Result<(), RedisError> {
        // Serializes only strings and numbers, which cannot fail.
        let mut plain = serde_json::to_vec(message).unwrap_or_default();
        plain.push(b'\n');
        plain.extend_from_slice(bytes);
        let sealed = self.key.seal_for_edge(answers_channel(edge).as_bytes(), &plain);
        self.redis.tell_edge(edge, &sealed).await
    }

    /// Answers other edges from `store` and receives their replies, for as long as it is polled.
    pub(super) async fn run(&self, store: &AnswerStore) {
        loop {
            // Questions sent while Redis is unavailable are repeated.
            if let Err(error) = self.listen(store).await {
                tracing::debug!(%error, "other edges cannot ask for answers");
            }
            store.forget_old();
            sleep(limits::EDGE_LISTEN_RETRY).await;
        }
    }

    async fn listen(&self, store: &AnswerStore) -> Result<(), RedisError> {
        let channel = answers_channel(&self.own);
        let Ok(subscriber) = timeout(limits::SUBSCRIBE_WAIT, self.redis.subscriber()).await else { return Ok(()) };
        let mut subscriber = subscriber?;
        subscriber.subscribe(&channel).await?;
        let mut messages = subscriber.into_on_message();
        let (mut answering, mut every) = (FuturesUnordered::new(), interval(limits::EXPIRED_CHECK_EVERY));
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
                Ok(EdgeMessage::Question(question)) if answering.len() < limits::EDGE_ANSWERS => {
                    answering.push(self.reply(store, question));
                }
                Ok(EdgeMessage::Reply(reply)) => {
                    if let Some(asked) = self.asked().remove(&reply.id) {
                        let start = plain.len().min(line + 1);
                        let _ = asked.send((reply, Bytes::from(plain).slice(start..)));
                    }
                }
                // The question will be repeated.
                Ok(EdgeMessage::Question(_)) => {}
                Err(error) => tracing::debug!(%error, "a message of another edge cannot be read"),
            }
        }
    }

    async fn reply(&self, store: &AnswerStore, question: PartQuestion) {
        let (reply, bytes) = timeout(limits::EDGE_PIECE_WAIT, find(store, &question)).await.unwrap_or_else(|_| {
            (PartReply { id: question.id, found: PartFound::Nothing, head: None, at: 0 }, Bytes::new())
        });
        if let Err(error) = self.send(&question.from, &EdgeMessage::Reply(reply), &bytes).await {
            tracing::debug!(%error, "another edge cannot be answered");
        }
    }
}

/// Returns the part of an answer at a position, once there is one.
async fn find(store: &AnswerStore, PartQuestion { id, name, tag, at, .. }: &PartQuestion) -> (PartReply, Bytes) {
    let reply = |found, head, at, bytes| (PartReply { id: *id, found, head, at }, bytes);
    let gone = || reply(PartFound::Gone, None, 0, Bytes::new());
    let Some(kept) = store.find(name).filter(|kept| kept.claim.tag == *tag) else { return gone() };
    let (head, at) = match at {
        AnswerPosition::At(at) => (None, *at),
        AnswerPosition::Begin(event) => {
            let head = match kept.head().await {
                Ok(head) => HeadText::from_head(&head),
                Err(AbsentReason::Claimed(_) | AbsentReason::Unknown | AbsentReason::Void) => return gone(),
            };
            let at = event.as_deref().map_or(Some(0), |event| kept.position_after(event));
            let Some(at) = at else { return gone() };
            (Some(head), at)
        }
    };
    // The client is waiting for the head, so it does not wait for bytes.
    let piece = if head.is_some() { kept.next(at).now_or_never() } else { Some(kept.next(at).await) };
    match piece {
        None => reply(PartFound::Nothing, head, at, Bytes::new()),
        Some(AnswerPiece::Bytes(bytes)) => reply(PartFound::Bytes, head, at, bytes),
        Some(AnswerPiece::End(AnswerEnd::Whole)) => reply(PartFound::End, head, at, Bytes::new()),
        Some(AnswerPiece::End(AnswerEnd::Aborted)) => reply(PartFound::Aborted, head, at, Bytes::new()),
        Some(AnswerPiece::Lost) => gone(),
    }
}
