//! Completions and embeddings, from a valid request to the answer: admission, the provider exchange, and settlement.

mod asking;
mod provider_error;
mod whole_answer;

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use bytes::BytesMut;
use config::models::ModelRoute;
use domain::{PayingAccount, usage::Microcents};
use edge_metrics as metrics;
use fairness::{ShareError, TurnPermit};
use futures_util::stream::FuturesUnordered;
use gateway_answer::{answer_memory::AnswerMemory, sse::ChatFrames};
use gateway_formats::{AnswerFrames, ClientFormat, ErrorFormat, FormattedRequest, NativeAnswer, NativeFrames};
use gateway_request::{
    error::{ApiError, ProviderError, RequestFacts},
    models::ServedModel,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use memory::keys::GatewayKey;
use meter::{AdmittedCompletion, Allowance, RateLimits};
use openai::usage_report::ExpectedUsage;
use upstream::{GzipDecoder, UpstreamResponse};

use self::asking::ProviderRequest;
use super::{
    body::GatewayBody,
    drains::CompletionCaller,
    metered_answer::MeteredAnswer,
    rate_headers,
    settings::GatewaySettings,
    state::GatewayState,
    stream::{KeepAliveTimer, StreamBody, StreamRelay},
};

/// The name of the provider that served a completion.
const PROVIDER: HeaderName = HeaderName::from_static("x-svc-provider");

/// The id under which `GET /usage/ai/requests` lists the completion.
pub(super) const COMPLETION: HeaderName = HeaderName::from_static("x-svc-completion");
/// The cost of the completion in millionths of a euro, rounded up.
pub(super) const COST: HeaderName = HeaderName::from_static("x-svc-cost");

/// Answers a valid request. The future keeps being polled after its client disconnects.
pub(super) async fn complete(
    state: Arc<GatewayState>,
    settings: Arc<GatewaySettings>,
    key: Arc<GatewayKey>,
    request: FormattedRequest,
    request_id: String,
    caller: CompletionCaller,
) -> Response<GatewayBody> {
    let model = request.model.clone();
    let (concurrent, allowance) = (settings.concurrent, settings.allowance(&key));
    // A completion lasts for minutes and does not need the settings any longer.
    drop(settings);
    let response = match state.completions.try_take_with_share(&key.payer, concurrent) {
        Ok(turn) => admit_and_exchange(state, key, allowance, request, request_id, &caller, turn).await,
        Err(refused) => {
            let error = match refused {
                ShareError::Share => ApiError::too_many_at_once(concurrent),
                ShareError::Full => ApiError::busy(),
            };
            refuse(&request.format.errors(&request_id, request.expected.prompt, &model), error, None)
        }
    };
    model.count_answer(response.status());
    caller.answered(&response);
    response
}

async fn admit_and_exchange(
    state: Arc<GatewayState>,
    key: Arc<GatewayKey>,
    allowance: Allowance,
    request: FormattedRequest,
    request_id: String,
    caller: &CompletionCaller,
    turn: TurnPermit<PayingAccount>,
) -> Response<GatewayBody> {
    let (route, longest) = (request.format.route(), request.time_limit());
    let FormattedRequest { model, is_stream, max_usage, expected, sent, body, fallback, format } = request;
    let errors = format.errors(&request_id, expected.prompt, &model);
    let mut memory = AnswerMemory::new(&state.answers, &key.payer);
    // Checked before the provider is contacted, so this refusal costs nothing.
    if !is_stream && memory.grow_to(limits::USUAL_ANSWER_BYTES).is_err() {
        metrics::exhausted();
        return refuse(&errors, ApiError::no_memory_for_answer(), None);
    }
    let admitted = state.meter.admit(&key, allowance, &model.model, max_usage, expected.prompt);
    let AdmittedCompletion { mut reservation, rate_limits } = match admitted.await {
        Ok(admission) => admission,
        Err(error) => return refuse(&errors, ApiError::from(&error), error.rate_limits()),
    };
    caller.watch(&mut reservation);
    let cut_off = state.under_way.cut_off.clone();
    if cut_off.is_cancelled() {
        reservation.release();
        return refuse(&errors, ProviderError::CutOff.into(), Some(&rate_limits));
    }
    let id = HeaderValue::from_str(reservation.id().as_str()).ok();
    let metered = MeteredAnswer::new(reservation, expected, is_stream, caller.disconnected());
    let facts = RequestFacts { context: model.model.context, sent };
    let native = format.native_answer();
    let mut exchange = ProviderExchange { state, model, native, route, longest, expected, facts, request_id };
    let mut headers = None;
    let asked = {
        // A future pinned in place is not moved, so the request's future holds it only once.
        let request = ProviderRequest { body: body.into(), is_stream, fallback };
        let mut asking = pin!(exchange.send_to_providers(request, &metered, &key.payer));
        let asking = poll_fn(|cx| {
            // The client left before the request was sent: do not send it.
            if caller.has_left() && !metered.is_request_sent() {
                return Poll::Ready(ProviderOutcome::Abandoned);
            }
            let asked = asking.as_mut().poll(cx);
            if asked.is_pending() && headers.is_none() {
                // Built while the provider works, so they do not delay its answer.
                headers = Some(answer_headers(is_stream, &rate_limits, &format, id.as_ref()));
            }
            asked
        });
        cut_off.run_until_cancelled(asking).await.unwrap_or(ProviderOutcome::CutOff)
    };
    let mut headers = headers.unwrap_or_else(|| answer_headers(is_stream, &rate_limits, &format, id.as_ref()));
    if let Some(name) = &exchange.model.upstream.name_header {
        headers.insert(PROVIDER, name.clone());
    }
    let format = if exchange.native.is_none() { format.into_translated() } else { format };
    let answered = match asked {
        ProviderOutcome::Stream(answer) if is_stream => {
            exchange.relay_stream(answer, metered, memory, turn, format).await
        }
        ProviderOutcome::Stream(answer) => Box::pin(exchange.relay_merged(answer, metered, memory, turn, format)).await,
        ProviderOutcome::Whole(answer) => exchange.relay_json(answer, metered, is_stream, memory, turn, format).await,
        ProviderOutcome::Failed(error) => {
            metered.release();
            Err(error)
        }
        ProviderOutcome::Abandoned => {
            metered.release();
            return refuse(&errors, ApiError::body_cut_off(), None);
        }
        ProviderOutcome::CutOff => {
            metered.settle_so_far();
            Err(ProviderError::CutOff)
        }
    };
    match answered {
        Ok(CompletionResponse { body, cost }) => {
            if let Some(cost) = cost {
                headers.insert(COST, cost.microeuros().into());
            }
            let mut response = Response::new(body);
            *response.headers_mut() = headers;
            response
        }
        Err(error) => {
            let mut response = refuse(&errors, error.into(), Some(&rate_limits));
            // Anything charged can be found in the usage list.
            if let Some(id) = id.filter(|_| caller.is_charged()) {
                response.headers_mut().insert(COMPLETION, id);
            }
            response
        }
    }
}

struct CompletionResponse {
    body: GatewayBody,
    /// The cost, if it is known before the first byte; a stream reports it in its last frame.
    cost: Option<Microcents>,
}

enum ProviderOutcome {
    Stream(UpstreamResponse),
    Whole(UpstreamResponse),
    /// No completion; the error for the client.
    Failed(ProviderError),
    /// The client left before the request was sent.
    Abandoned,
    /// This edge is shutting down.
    CutOff,
}

struct ProviderExchange {
    state: Arc<GatewayState>,
    /// The model at the provider in use.
    model: Arc<ServedModel>,
    /// Reads the answers of a provider that speaks the client's own format.
    native: Option<Arc<NativeAnswer>>,
    /// The route used when the provider does not speak the client's own format.
    route: ModelRoute,
    /// The time limit for the whole answer.
    longest: Duration,
    expected: ExpectedUsage,
    facts: RequestFacts,
    request_id: String,
}

impl ProviderExchange {
    /// Reads and drops the body of an error in the background, so that the connection can be reused.
    fn discard(&self, mut answer: UpstreamResponse) {
        let model = self.model.clone();
        self.state.drains.spawn_end(async move {
            let mut read = 0;
            let end = tokio::time::timeout(limits::STREAM_END, async {
                while let Some(Ok(chunk)) = poll_fn(|cx| answer.poll_chunk(cx)).await {
                    read += chunk.len();
                    if read > limits::PROVIDER_ERROR_BYTES {
                        return false;
                    }
                }
                true
            });
            if end.await.unwrap_or(false) {
                model.upstream.return_to_pool(answer.into_connection());
            }
        });
    }

    /// Answers with a stream, which takes over the reservation and the turn, once it begins or has been awaited long
    /// enough.
    async fn relay_stream(
        self,
        mut answer: UpstreamResponse,
        metered: MeteredAnswer,
        memory: AnswerMemory,
        turn: TurnPermit<PayingAccount>,
        format: ClientFormat,
    ) -> Result<CompletionResponse, ProviderError> {
        let gzip = match GzipDecoder::for_headers(&answer.headers) {
            Ok(gzip) => gzip,
            Err(error) => {
                self.warn(&error);
                metered.release();
                return Err(ProviderError::FAILED);
            }
        };
        // The headers are no longer needed, and a stream lives long.
        answer.headers = HeaderMap::new();
        let frames = match &self.native {
            None => AnswerFrames::Chat(ChatFrames::new(self.model.clone(), self.expected).at(self.route)),
            Some(native) => AnswerFrames::Native(Box::new(NativeFrames::new(native.clone(), self.expected))),
        };
        let relay = StreamRelay {
            answer,
            metered: metered.into_frames(frames, self.request_id),
            gzip,
            model: self.model,
            facts: self.facts,
            keep_alive: KeepAliveTimer::new(),
            is_beginning: true,
            turn,
            read: 0,
            events: format.into_events(memory, self.native),
            out: BytesMut::new(),
            cut_off: FuturesUnordered::from_iter([self.state.under_way.cut_off.clone().cancelled_owned()]),
        };
        let body = StreamBody::begin(relay, self.state.drains.clone()).await.map(GatewayBody::from)?;
        Ok(CompletionResponse { body, cost: None })
    }

    fn unusable(&self, why: &dyn std::fmt::Display) -> ProviderError {
        metrics::upstream_failed(&self.model.upstream.name, "unusable answer");
        self.warn(why);
        ProviderError::FAILED
    }

    fn warn(&self, why: &dyn std::fmt::Display) {
        tracing::warn!(provider = &*self.model.upstream.name, request = self.request_id, %why, "a completion failed");
    }
}

/// Returns the headers of a completion, with capacity for those added to every response.
fn answer_headers(
    is_stream: bool,
    rate_limits: &RateLimits,
    format: &ClientFormat,
    id: Option<&HeaderValue>,
) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(limits::ANSWER_HEADERS);
    if is_stream {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Keeps nginx and similar proxies from buffering frames.
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    } else {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    if let Some(id) = id {
        headers.insert(COMPLETION, id.clone());
    }
    rate_headers::insert(&mut headers, rate_limits);
    format.add_headers(&mut headers);
    headers
}

/// Returns the response for an error, with the account's rate limits if known.
fn refuse(errors: &ErrorFormat, error: ApiError, rate_limits: Option<&RateLimits>) -> Response<GatewayBody> {
    let mut response = errors.response(error).map(GatewayBody::from);
    if let Some(rate_limits) = rate_limits {
        rate_headers::insert(response.headers_mut(), rate_limits);
    }
    response
}
