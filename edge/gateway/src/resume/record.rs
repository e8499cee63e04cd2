//! The exchange whose answer is kept: claimed, run in its own task, and recorded.

use std::{sync::Arc, time::Duration};

use bytes::BytesMut;
use gateway_formats::FormattedRequest;
use http::{Response, header};
use http_body_util::BodyExt as _;
use live::{Redis, RedisError};
use memory::keys::GatewayKey;
use meter::ChargeFlag;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use traces::CompletionSpan;

use super::{
    super::{body::GatewayBody, drains::CompletionCaller, exchange, settings::GatewaySettings, state::GatewayState},
    AnswerResumption,
    claim::AnswerClaim,
    events::EventIds,
    kept::{AbsentReason, AnswerEnd, AnswerHead, KeptAnswer},
};

pub(crate) struct PendingExchange {
    pub(crate) state: Arc<GatewayState>,
    pub(crate) settings: Arc<GatewaySettings>,
    pub(crate) key: Arc<GatewayKey>,
    pub(crate) request: FormattedRequest,
    pub(crate) request_id: String,
    pub(crate) span: Option<CompletionSpan>,
}

impl PendingExchange {
    /// Runs the exchange in the background, and records its answer in `entry`.
    pub(super) fn spawn(self, entry: AnswerEntry) {
        let tasks = self.state.under_way.tasks.clone();
        tasks.spawn(self.run(entry));
    }

    async fn run(self, entry: AnswerEntry) {
        if let Err(absent) = entry.claim().await {
            return entry.end_absent(absent);
        }
        let Self { state, settings, key, request, request_id, span } = self;
        let (cut_off, charge) = (state.under_way.cut_off.clone(), ChargeFlag::default());
        let writing = async {
            let caller = CompletionCaller::lasting(charge.clone(), span);
            let response = exchange::complete(state, settings, key, request, request_id, caller).await;
            entry.write(response, &cut_off).await
        };
        let (is_success, end) = tokio::select! {
            written = writing => written,
            () = entry.hold_claim() => (false, AnswerEnd::Aborted),
        };
        entry.finish(is_success || charge.is_set(), end).await;
    }
}

/// The entry of an answer that is being written. If it is dropped early, there is no answer.
pub(super) struct AnswerEntry {
    resumption: AnswerResumption,
    name: String,
    kept: Arc<KeptAnswer>,
    is_left: bool,
}

impl AnswerEntry {
    pub(super) fn new(resumption: AnswerResumption, name: String, kept: Arc<KeptAnswer>) -> Self {
        Self { resumption, name, kept, is_left: false }
    }

    /// Claims the answer for this edge, unless another live edge has it.
    async fn claim(&self) -> Result<(), AbsentReason> {
        match self.find_claim().await {
            Ok(None) => Ok(()),
            Ok(Some(other)) => Err(AnswerClaim::parse(&other).map_or(AbsentReason::Unknown, AbsentReason::Claimed)),
            Err(_) => {
                // The claim may have been made anyway, for an exchange that does not begin.
                let _ = self.redis().release_answer(&self.name, &self.kept.claim.to_text()).await;
                Err(AbsentReason::Unknown)
            }
        }
    }

    /// Makes the claim, or returns the existing one.
    async fn find_claim(&self) -> Result<Option<String>, RedisError> {
        let Some(other) = self.put_claim(None, limits::ANSWER_CLAIM).await? else { return Ok(None) };
        let is_void = match AnswerClaim::parse(&other) {
            None => true,
            Some(claim) => claim.edge != self.kept.claim.edge && self.redis().is_gone(&claim.edge).await?,
        };
        if is_void { self.put_claim(Some(&other), limits::ANSWER_CLAIM).await } else { Ok(Some(other)) }
    }

    async fn put_claim(&self, former: Option<&str>, time: Duration) -> Result<Option<String>, RedisError> {
        self.redis().claim_answer(&self.name, &self.kept.claim.to_text(), former, time).await
    }

    fn redis(&self) -> &Redis {
        &self.resumption.0.edges.redis
    }

    /// Extends the claim for as long as it is polled.
    async fn hold_claim(&self) {
        loop {
            sleep(limits::ANSWER_CLAIM_EVERY).await;
            self.extend_claim(limits::ANSWER_CLAIM).await;
        }
    }

    async fn extend_claim(&self, time: Duration) {
        if let Err(error) = self.put_claim(None, time).await {
            tracing::debug!(%error, "the claim of an answer is not extended");
        }
    }

    /// Records an answer. Returns whether it is a success, and how it ends.
    async fn write(&self, response: Response<GatewayBody>, cut_off: &CancellationToken) -> (bool, AnswerEnd) {
        let (head, mut body) = response.into_parts();
        let media_type = head.headers.get(header::CONTENT_TYPE);
        let is_stream = media_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        let is_success = head.status.is_success();
        self.kept.begin(AnswerHead { status: head.status, headers: head.headers, is_stream });
        let mut ids = is_stream.then(|| EventIds::new(self.kept.claim.tag.clone()));
        let mut out = BytesMut::new();
        loop {
            let piece = match body.frame().await {
                None => return (is_success, AnswerEnd::Whole),
                Some(Err(_)) => return (false, AnswerEnd::Aborted),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            match &mut ids {
                Some(ids) => ids.push(&piece, self.kept.written(), &mut out),
                None => out.extend_from_slice(&piece),
            }
            if out.is_empty() {
                continue;
            }
            self.resumption.0.store.make_room(&self.kept, out.len());
            // When the edge shuts down, slow readers are not waited for.
            cut_off.run_until_cancelled(self.kept.write(&out)).await;
            out.clear();
        }
    }

    /// Ends the answer. If it counts, it is kept if there is memory; after a failure without cost, its key is free
    /// again.
    async fn finish(mut self, counts: bool, end: AnswerEnd) {
        self.is_left = true;
        let store = &self.resumption.0.store;
        if !counts {
            store.remove(&self.name, &self.kept);
            // Released first, so that a client that retries immediately finds no claim.
            if let Err(error) = self.redis().release_answer(&self.name, &self.kept.claim.to_text()).await {
                tracing::debug!(%error, "the claim of a failed completion is not given up, and expires");
            }
            self.kept.end(end);
            return;
        }
        if self.kept.is_kept() {
            store.keep(&self.name, &self.kept);
        } else {
            store.remove(&self.name, &self.kept);
        }
        self.kept.end(end);
        self.extend_claim(limits::ANSWER_KEPT).await;
    }

    fn end_absent(mut self, absent: AbsentReason) {
        self.is_left = true;
        self.resumption.0.store.remove(&self.name, &self.kept);
        self.kept.set_absent(absent);
    }
}

impl Drop for AnswerEntry {
    fn drop(&mut self) {
        if !self.is_left {
            self.resumption.0.store.remove(&self.name, &self.kept);
            self.kept.set_void();
        }
    }
}
