//! Answers for clients that reconnect: a completion with an `Idempotency-Key` runs once, and its answer is kept in
//! memory while it is written and for a while after its end.
//!
//! The exchange with the provider runs in its own task and writes to a [`KeptAnswer`] answer. The client, and any other
//! request with the same key, reads from there. A client that was disconnected sends the `Last-Event-ID` that it
//! received, and gets the rest, byte for byte; `events` assigns the ids. A claim in Redis records which edge has the
//! answer, so that no other edge starts the same one; `edges` fetches it from that edge.
//!
//! If there is no memory for an answer, it continues without being kept. Nothing is written to disk, and answers pass
//! through Redis only sealed. While answers are kept, a key never leads to a second exchange, unless the first cost
//! nothing or its edge is gone. Start with [`AnswerResumption::answer`].

mod claim;
mod edges;
mod events;
mod kept;
mod record;
mod store;

use std::sync::Arc;

use ahash::RandomState;
use bytes::Bytes;
use domain::PayingAccount;
use edge_metrics as metrics;
use fairness::AmountLimit;
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use gateway_request::error::ApiError;
use http::{HeaderName, HeaderValue, Response};
use limits::MemoryShares;
use live::Redis;
use secrets::EdgeKey;
use tokio::time::{Instant, timeout};

use self::{
    claim::AnswerClaim,
    edges::{AnswerPosition, EdgeExchange, HeadText, PartFound, PartQuestion, PartReply},
    kept::{AbsentReason, AnswerEnd, AnswerHead, AnswerPiece, KeptAnswer, KeptReader},
    store::{AnswerLookup, AnswerStore, KeptRoom},
};
pub(super) use self::{claim::IdempotencyHeaders, record::PendingExchange};
use super::{body::GatewayBody, stream::StreamAbortedError};

/// Marks an answer that was already given, to this client or another with its key.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// A comment that clients ignore, without an empty line: after an id, some treat that as an event without data.
const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n");

/// A stream of an answer's bytes.
pub(super) type AnswerStream = BoxStream<'static, Result<Bytes, StreamAbortedError>>;

/// The answers kept by an edge, and its access to those of other edges. Cheap to clone.
#[derive(Clone)]
pub(super) struct AnswerResumption(Arc<ResumptionState>);

struct ResumptionState {
    store: AnswerStore,
    edges: EdgeExchange,
    hasher: RandomState,
}

/// A request with an `Idempotency-Key`.
pub(super) struct IdempotentRequest<'a> {
    pub(super) once: IdempotencyHeaders,
    pub(super) account: &'a PayingAccount,
    pub(super) path: &'a str,
    pub(super) body: &'a Bytes,
    pub(super) request_id: &'a str,
}

impl AnswerResumption {
    /// Creates the store of the edge named `edge`. Kept answers share a part of the memory for `answers`.
    pub(super) fn new(
        edge: String,
        redis: Redis,
        key: EdgeKey,
        answers: &AmountLimit<PayingAccount>,
        shares: &MemoryShares,
    ) -> Self {
        let store = AnswerStore::new(KeptRoom::new(answers, shares.answers, shares.account_answers));
        Self(Arc::new(ResumptionState {
            store,
            edges: EdgeExchange::new(edge, redis, key),
            hasher: RandomState::new(),
        }))
    }

    pub(super) async fn run(self) {
        self.0.edges.run(&self.0.store).await;
    }

    /// Answers a request: from its kept answer, here or at another edge, or with the exchange that `begin` creates.
    pub(super) async fn answer<B, E>(
        &self,
        asked: &IdempotentRequest<'_>,
        begin: B,
    ) -> Result<Response<GatewayBody>, ApiError>
    where
        B: Fn() -> E + Send,
        E: Future<Output = Result<PendingExchange, ApiError>> + Send,
    {
        let ResumptionState { store, edges, hasher } = &*self.0;
        let (name, request) = (asked.once.answer_name(asked.account.account()), fingerprint(asked).await);
        let claim = || AnswerClaim {
            edge: edges.own.clone(),
            tag: format!("{:08x}", hasher.hash_one(asked.request_id) >> 32),
            request: request.clone(),
        };
        let event = asked.once.last_event.as_deref();
        for _ in 0..limits::ANSWER_LOOKS {
            let held = match event {
                // A disconnected stream is resumed and never started again.
                Some(event) => match store.find(&name) {
                    Some(kept) if kept.claim.request != request => return Err(ApiError::idempotency_conflict()),
                    Some(kept) => match self.replay(&kept, Some(event)).await {
                        Ok(answer) => return answer,
                        Err(absent) => absent,
                    },
                    None => self.read_claim(&name).await,
                },
                None => match store.enter(&name, claim, asked.account, &request) {
                    AnswerLookup::Other => return Err(ApiError::idempotency_conflict()),
                    AnswerLookup::Full => return Err(ApiError::busy()),
                    AnswerLookup::Kept(kept) => match self.replay(&kept, None).await {
                        Ok(answer) => return answer,
                        Err(absent) => absent,
                    },
                    AnswerLookup::New(kept) => match self.begin(name.clone(), kept, begin()).await? {
                        Ok(answer) => return Ok(answer),
                        Err(absent) => absent,
                    },
                },
            };
            match held {
                AbsentReason::Void if event.is_some() => return Err(ApiError::completion_gone()),
                AbsentReason::Void => {}
                AbsentReason::Unknown => return Err(ApiError::limits_unavailable(limits::KEYS_RETRY)),
                AbsentReason::Claimed(claim) if claim.request != request => {
                    return Err(ApiError::idempotency_conflict());
                }
                AbsentReason::Claimed(claim) if claim.edge == edges.own => return Err(ApiError::completion_gone()),
                AbsentReason::Claimed(claim) => {
                    if let Some(answer) = self.fetch(&name, &claim, event).await? {
                        return Ok(answer);
                    }
                }
            }
        }
        Err(ApiError::answer_unreachable())
    }

    /// Reads from Redis which edge has the answer with this name.
    async fn read_claim(&self, name: &str) -> AbsentReason {
        match self.0.edges.redis.answer_claim(name).await {
            Ok(claim) => {
                claim.as_deref().and_then(AnswerClaim::parse).map_or(AbsentReason::Void, AbsentReason::Claimed)
            }
            Err(_) => AbsentReason::Unknown,
        }
    }

    async fn begin(
        &self,
        name: String,
        kept: Arc<KeptAnswer>,
        begin: impl Future<Output = Result<PendingExchange, ApiError>>,
    ) -> Result<Result<Response<GatewayBody>, AbsentReason>, ApiError> {
        // Created before anything is written: an answer that is not kept is dropped once all its readers have read it.
        let reader = kept.reader(0);
        let entry = record::AnswerEntry::new(self.clone(), name, kept.clone());
        let exchange = begin.await?;
        exchange.spawn(entry);
        match (kept.head().await, reader) {
            (Ok(head), Some(reader)) => Ok(Ok(respond(&kept, &head, reader, false).await)),
            (Err(absent), _) => Ok(Err(absent)),
            (Ok(_), None) => Err(ApiError::completion_gone()),
        }
    }

    async fn replay(
        &self,
        kept: &Arc<KeptAnswer>,
        event: Option<&str>,
    ) -> Result<Result<Response<GatewayBody>, ApiError>, AbsentReason> {
        let from_start = kept.reader(0);
        let head = kept.head().await?;
        let reader = match event {
            None => from_start,
            Some(event) => kept.position_after(event).and_then(|at| kept.reader(at)),
        };
        let Some(reader) = reader else { return Ok(Err(ApiError::completion_gone())) };
        metrics::answer_resumed("memory");
        Ok(Ok(respond(kept, &head, reader, true).await))
    }

    /// Answers from an answer at another edge. Returns `None` if that edge is gone.
    async fn fetch(
        &self,
        name: &str,
        claim: &AnswerClaim,
        event: Option<&str>,
    ) -> Result<Option<Response<GatewayBody>>, ApiError> {
        let edges = &self.0.edges;
        match edges.redis.is_gone(&claim.edge).await {
            Ok(true) if event.is_some() => return Err(ApiError::completion_gone()),
            // Another exchange may begin and replace its claim.
            Ok(true) => return Ok(None),
            Ok(false) => {}
            Err(_) => return Err(ApiError::limits_unavailable(limits::KEYS_RETRY)),
        }
        let question = edges.question(name, &claim.tag, AnswerPosition::Begin(event.map(str::to_owned)));
        let (reply, bytes) = loop {
            match edges.send_question(&claim.edge, &question).await {
                None => return Err(ApiError::answer_unreachable()),
                // The provider is working on a whole answer.
                Some((PartReply { found: PartFound::Nothing, head: None, .. }, _)) => {}
                Some(replied) => break replied,
            }
        };
        let Some(head) = reply.head.as_ref().map(HeadText::parse) else { return Err(ApiError::completion_gone()) };
        metrics::answer_resumed("edge");
        let remote = RemoteAnswer {
            resumption: self.clone(),
            edge: claim.edge.clone(),
            question,
            at: reply.at,
            first: Some((reply.found, bytes)),
            is_stream: head.is_stream,
            sent: Instant::now(),
        };
        Ok(Some(response(&head, GatewayBody::kept(remote.pieces(), None), true)))
    }
}

/// Returns the fingerprint of a request, computed on a blocking thread if it is large.
async fn fingerprint(asked: &IdempotentRequest<'_>) -> String {
    if asked.body.len() < limits::JUDGED_APART_BYTES {
        return claim::fingerprint(asked.path, asked.body);
    }
    let (path, body) = (asked.path.to_owned(), asked.body.clone());
    // Fails when the runtime stops.
    tokio::task::spawn_blocking(move || claim::fingerprint(&path, &body)).await.unwrap_or_default()
}

async fn respond(
    kept: &Arc<KeptAnswer>,
    head: &AnswerHead,
    reader: KeptReader,
    is_replayed: bool,
) -> Response<GatewayBody> {
    if !head.is_stream {
        // The answer was complete before its first byte was sent, so it has a length again.
        kept.wait_until_ended().await;
    }
    let length = kept.whole_length().filter(|_| !head.is_stream);
    response(head, GatewayBody::kept(local_pieces(reader, head.is_stream), length), is_replayed)
}

fn response(head: &AnswerHead, body: GatewayBody, is_replayed: bool) -> Response<GatewayBody> {
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    let headers = response.headers_mut();
    headers.clone_from(&head.headers);
    if is_replayed {
        // These values are outdated.
        let is_stale = |name: &&HeaderName| name.as_str().starts_with("x-ratelimit-");
        head.headers.keys().filter(is_stale).for_each(|name| _ = headers.remove(name));
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// Returns a reader's pieces, with comments during silence. A reader that is up to date is always between two events.
fn local_pieces(reader: KeptReader, is_stream: bool) -> AnswerStream {
    let next = move |reader: Option<KeptReader>| async move {
        let mut reader = reader?;
        loop {
            return match timeout(limits::KEEP_ALIVE, reader.next()).await {
                Err(_) if is_stream => Some((Ok(KEEP_ALIVE), Some(reader))),
                Err(_) => continue,
                Ok(AnswerPiece::Bytes(bytes)) => Some((Ok(bytes), Some(reader))),
                Ok(AnswerPiece::End(AnswerEnd::Whole)) => None,
                Ok(AnswerPiece::End(AnswerEnd::Aborted) | AnswerPiece::Lost) => Some((Err(StreamAbortedError), None)),
            };
        }
    };
    stream::unfold(Some(reader), next).boxed()
}

/// An answer at another edge.
struct RemoteAnswer {
    resumption: AnswerResumption,
    edge: String,
    question: PartQuestion,
    at: u64,
    /// The piece that came with the head.
    first: Option<(PartFound, Bytes)>,
    is_stream: bool,
    /// When something was last sent to the client.
    sent: Instant,
}

impl RemoteAnswer {
    fn pieces(self) -> AnswerStream {
        let next = |remote: Option<Self>| async move {
            let mut remote = remote?;
            match remote.next().await {
                Some(Ok(bytes)) => Some((Ok(bytes), Some(remote))),
                Some(Err(error)) => Some((Err(error), None)),
                None => None,
            }
        };
        stream::unfold(Some(self), next).boxed()
    }

    async fn next(&mut self) -> Option<Result<Bytes, StreamAbortedError>> {
        let mut missed = 0;
        loop {
            let reply = if let Some(first) = self.first.take() {
                Some(first)
            } else {
                self.question.at = AnswerPosition::At(self.at);
                let replied = self.resumption.0.edges.send_question(&self.edge, &self.question).await;
                replied.map(|(reply, bytes)| (reply.found, bytes))
            };
            match reply {
                Some((PartFound::Bytes, bytes)) => {
                    self.at += bytes.len() as u64;
                    self.sent = Instant::now();
                    return Some(Ok(bytes));
                }
                Some((PartFound::Nothing, _)) if self.is_stream && self.sent.elapsed() >= limits::KEEP_ALIVE => {
                    self.sent = Instant::now();
                    return Some(Ok(KEEP_ALIVE));
                }
                Some((PartFound::Nothing, _)) => missed = 0,
                Some((PartFound::End, _)) => return None,
                None if missed + 1 < limits::EDGE_TRIES => missed += 1,
                Some((PartFound::Aborted | PartFound::Gone, _)) | None => return Some(Err(StreamAbortedError)),
            }
        }
    }
}
