//! The AI gateway: `OpenAI`'s wire format in front of the model providers.
//!
//! This crate turns a request into a response; `edge/listen` accepts the connections. Every completion passes the same
//! steps:
//!
//! 1. **Authentication** (`authentication`): `keys` finds the account behind the API key.
//! 2. **Validation**: [`gateway_request`] checks the body's governed fields and writes the provider's body in its
//!    dialect.
//! 3. **Admission**: the [`meter`] checks the account's limits and reserves the most tokens that the completion can
//!    use.
//! 4. **Exchange**: `exchange` sends the request to the provider through `upstream` and relays the answer: whole
//!    through `json_answer`, or event by event through `stream` and `sse`. If the client disconnects, `drains` reads
//!    on. A completion with an `Idempotency-Key` runs in its own task, and [`resume`] keeps its answer for clients that
//!    reconnect.
//! 5. **Settlement**: before the client gets the last bytes, the reservation is replaced by the usage that the provider
//!    reports, or released if the provider did nothing.
//!
//! Prompts and completions are held in memory while they are relayed; the gateway does not log, count or store them.
//! `openapi.json` documents the API for clients; `error` lists the errors. Start with [`Gateway::answer`].

mod authentication;
mod body;
mod cors;
mod drains;
mod exchange;
mod metered_answer;
mod metered_frames;
mod openapi;
mod paths;
mod plain_answers;
mod rate_headers;
mod resume;
mod route;
mod settings;
mod state;
mod stream;
mod under_way;

use std::{net::IpAddr, sync::Arc};

use arc_swap::ArcSwap;
use bytes::Bytes;
use domain::Clock;
use edge_metrics::{self as metrics, NO_MODEL};
use fairness::{AmountLimit, Client, RoomBounds, SizedRoom, TurnBounds, TurnQueue, budget};
use gateway_formats::{CompletionApi, FormattedRequest, messages};
use gateway_request::{
    asks::RequestLimits,
    error::ApiError,
    models::ServedModels,
    request_body::{self, BodyReader, ReadBody},
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, header, request::Parts};
use http_types::{RequestIds, X_REQUEST_ID};
use limits::MemoryShares;
use live::Redis;
use memory::keys::{GatewayKey, GatewayKeyCache};
use meter::{AdmittedCompletion, UsageMeter};
use openai::usage::MaxUsage;
use percent_encoding::percent_decode_str;
use secrets::EdgeKey;
use traces::{CompletionSpan, CompletionTraces};

pub use self::plain_answers::refusal;
pub use self::{body::GatewayBody, settings::GatewaySettings, under_way::ConnectionCompletions};
use self::{
    drains::{CompletionCaller, DrainOnDrop, DrainTasks},
    plain_answers::{json_response, options, without_body},
    resume::{AnswerResumption, IdempotencyHeaders, IdempotentRequest, PendingExchange},
    route::GatewayRoute,
    state::GatewayState,
    under_way::PendingCompletions,
};
pub use upstream::ProviderSetupError;

/// The gateway.
pub struct Gateway {
    state: Arc<GatewayState>,
    resumption: AnswerResumption,
    traces: Option<CompletionTraces>,
    request_ids: RequestIds,
}

/// The connections and keys with which an edge reaches the others.
pub struct EdgePeers {
    /// The id of this edge.
    pub edge: String,
    /// Carries messages between edges.
    pub redis: Redis,
    /// Seals the messages.
    pub key: EdgeKey,
}

impl Gateway {
    /// Creates an edge's gateway to the models in `settings`. Memory for whole answers is bounded by `shares`.
    pub fn new(
        settings: GatewaySettings,
        shares: &MemoryShares,
        keys: Arc<GatewayKeyCache>,
        meter: UsageMeter,
        clock: Clock,
        peers: EdgePeers,
    ) -> Self {
        let under_way = PendingCompletions::default();
        let answers = AmountLimit::new(shares.answers, shares.account_answers);
        let EdgePeers { edge, redis, key } = peers;
        let resumption = AnswerResumption::new(edge, redis, key, &answers, shares);
        let state = GatewayState {
            keys,
            meter,
            clock,
            completions: TurnQueue::new(TurnBounds {
                total: limits::EXCHANGES,
                share: settings.concurrent,
                waiting: 0,
                waiting_share: 0,
            }),
            answers,
            requests: SizedRoom::new(RoomBounds {
                total: shares.requests,
                share: shares.account_requests,
                waiting: limits::BODY_WAITERS,
                waiting_share: limits::ACCOUNT_BODY_WAITERS,
            }),
            drains: DrainTasks::new(under_way.tasks.clone()),
            under_way,
            settings: ArcSwap::from_pointee(settings),
        };
        Self { state: Arc::new(state), resumption, traces: None, request_ids: RequestIds::default() }
    }

    /// Sets the traces that record completions, if any.
    #[must_use]
    pub fn with_traces(self, traces: Option<CompletionTraces>) -> Self {
        Self { traces, ..self }
    }

    fn begin_span(&self, headers: &HeaderMap, key: &GatewayKey, request: &FormattedRequest) -> Option<CompletionSpan> {
        self.traces.as_ref()?.begin(headers, &key.account, &request.model.model)
    }

    /// Returns the settings for requests that begin now.
    pub fn settings(&self) -> Arc<GatewaySettings> {
        self.state.settings.load_full()
    }

    /// Returns the ids of the models for which no provider has an operator key.
    pub fn unreachable_models(&self) -> Vec<String> {
        self.settings().models.unreachable()
    }

    /// Replaces the settings for requests that begin from now on.
    pub fn replace_settings(&self, settings: GatewaySettings) {
        self.state.settings.store(Arc::new(settings));
    }

    /// Answers a request from `client`. `completions` are those of its connection; its body is charged to `account`.
    pub async fn answer<B>(
        &self,
        request: Request<B>,
        client: IpAddr,
        account: &budget::BudgetAccount,
        completions: &ConnectionCompletions,
    ) -> Response<GatewayBody>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        let (head, mut body) = request.into_parts();
        let (settings, request_id) = (self.settings(), self.request_ids.generate());
        let path = paths::canonical(head.uri.path());
        let route = GatewayRoute::find(&path);
        let api = route.map_or_else(|| GatewayRoute::api_of_unknown(&path), GatewayRoute::api);
        let routed = self.route(route, &head, &mut body, &settings, &request_id, client.into(), account, completions);
        let mut response = match routed.await {
            Ok(response) => {
                // `exchange` counts completions, under their model.
                if !matches!(route, Some(GatewayRoute::Completions(_))) || head.method == Method::OPTIONS {
                    metrics::gateway_answers(NO_MODEL, response.status()).increment(1);
                }
                response
            }
            Err(error) => {
                metrics::gateway_answers(NO_MODEL, error.status()).increment(1);
                let is_expected = head.headers.contains_key(header::EXPECT);
                if !body.is_end_stream() && !is_expected && !error.skips_body() {
                    request_body::discard(&mut body).await;
                }
                api.errors(&request_id).response(error).map(GatewayBody::from)
            }
        };
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::try_from(request_id) {
            if api == CompletionApi::Messages {
                headers.insert(messages::REQUEST_ID, id.clone());
            }
            headers.insert(X_REQUEST_ID, id);
        }
        settings.cors.add_headers(&head, headers);
        if head.method == Method::HEAD { without_body(response) } else { response }
    }

    /// Serves the other edges' requests for kept answers for as long as it is polled.
    pub fn answer_edges(&self) -> impl Future<Output = ()> + Send + use<> {
        self.resumption.clone().run()
    }

    /// Returns the bytes held for whole answers and for large request bodies.
    pub fn memory_used(&self) -> [u64; 2] {
        [self.state.answers.held(), self.state.requests.held()]
    }

    /// Waits until no completion is pending, with or without its client. Called at shutdown, when none can begin.
    pub async fn wait_until_idle(&self) {
        self.state.under_way.wait_until_idle().await;
    }

    /// Ends pending completions: streams with an error frame, others with 503. Each is charged for what was received.
    pub fn cut_off(&self) {
        self.state.under_way.cut_off.cancel();
    }

    /// Cancels and settles completions whose clients have disconnected. Called at shutdown, after
    /// [`cut_off`](Self::cut_off) and after the last connection has ended.
    pub async fn finish(&self) {
        self.state.drains.cancel();
        self.wait_until_idle().await;
    }

    #[expect(clippy::too_many_arguments, reason = "a request, and what it comes with")]
    async fn route<B>(
        &self,
        route: Option<GatewayRoute<'_>>,
        head: &Parts,
        body: &mut B,
        settings: &Arc<GatewaySettings>,
        request_id: &str,
        client: Client,
        account: &budget::BudgetAccount,
        completions: &ConnectionCompletions,
    ) -> Result<Response<GatewayBody>, ApiError>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        let sent = head.uri.path();
        let route = route.ok_or_else(|| ApiError::unknown_url(&head.method, sent))?;
        if !route.has_method(&head.method) {
            return Err(ApiError::method_not_allowed(&head.method, sent, route.methods()));
        }
        if head.method == Method::OPTIONS {
            return Ok(options(route.methods()));
        }
        match route {
            GatewayRoute::OpenApi => Ok(openapi::response().map(GatewayBody::from)),
            GatewayRoute::Models => {
                let key = self.authenticate(authentication::bearer_secret(&head.headers)?, client).await?;
                Ok(json_response(settings.models.list(&settings.request_limits(&key))))
            }
            GatewayRoute::Model(id) => {
                let key = self.authenticate(authentication::bearer_secret(&head.headers)?, client).await?;
                let id = percent_decode_str(id).decode_utf8_lossy();
                let asks = settings.request_limits(&key);
                let model = settings.models.find_for(&id, &asks).ok_or_else(|| ApiError::model_not_found(&id))?;
                Ok(json_response(model.describe(&asks)))
            }
            GatewayRoute::CountTokens => {
                let key = self.authenticate(authentication::bearer_secret(&head.headers)?, client).await?;
                let asks = settings.request_limits(&key);
                let body = self.read_body(CompletionApi::Messages, head, body, &asks, account, &key).await?;
                self.count_tokens(body, &asks, &key, settings).await
            }
            GatewayRoute::Completions(api) => {
                let key = self.authenticate(authentication::bearer_secret(&head.headers)?, client).await?;
                let asks = settings.request_limits(&key);
                let once = IdempotencyHeaders::from_headers(&head.headers)?;
                let body = self.read_body(api, head, body, &asks, account, &key).await?;
                if let Some(once) = once {
                    let path = &paths::canonical(sent);
                    let asked = IdempotentRequest { once, account: &key.payer, path, body: &body.bytes, request_id };
                    let answering =
                        self.complete_once(&head.headers, &asked, &body, api, &asks, &key, settings, completions);
                    return answering.await;
                }
                let request = validate_request(api, body, &asks, settings).await?;
                let span = self.begin_span(&head.headers, &key, &request);
                Ok(self.complete(request, key, settings, request_id, completions, span).await)
            }
        }
    }

    async fn read_body<B>(
        &self,
        api: CompletionApi,
        head: &Parts,
        body: &mut B,
        asks: &RequestLimits,
        connection: &budget::BudgetAccount,
        key: &GatewayKey,
    ) -> Result<ReadBody, ApiError>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        let (room, copies) = (&self.state.requests, api.body_copies());
        let reader = BodyReader { asks, connection, room, account: &key.payer, copies };
        reader.read(&head.headers, body).await
    }

    /// Returns an upper bound of a request's prompt tokens. Counts as one of the account's requests and uses no tokens.
    async fn count_tokens(
        &self,
        body: ReadBody,
        asks: &RequestLimits,
        key: &Arc<GatewayKey>,
        settings: &Arc<GatewaySettings>,
    ) -> Result<Response<GatewayBody>, ApiError> {
        let request = read_request(body, asks, settings, messages::count_tokens).await?;
        let (allowance, model) = (settings.allowance(key), &request.model.model);
        let admitted =
            self.state.meter.admit(key, allowance, model, MaxUsage { prompt: 0, completion: 0, images: 0 }, 0).await;
        let AdmittedCompletion { reservation, rate_limits } = admitted.map_err(|error| ApiError::from(&error))?;
        reservation.release();
        let mut response = json_response(messages::token_count(request.max_usage.prompt));
        let headers = response.headers_mut();
        headers.insert(messages::TOKEN_COUNT, HeaderValue::from_static("upper-bound"));
        rate_headers::insert(headers, &rate_limits);
        Ok(response)
    }

    /// Answers a request with an `Idempotency-Key`: it runs once, however often it is sent.
    #[expect(clippy::too_many_arguments, reason = "a request, and what it comes with")]
    async fn complete_once(
        &self,
        headers: &HeaderMap,
        asked: &IdempotentRequest<'_>,
        body: &ReadBody,
        api: CompletionApi,
        asks: &RequestLimits,
        key: &Arc<GatewayKey>,
        settings: &Arc<GatewaySettings>,
        completions: &ConnectionCompletions,
    ) -> Result<Response<GatewayBody>, ApiError> {
        let held = self.state.under_way.begin(completions);
        let begin = || async {
            let mut request = validate_request(api, body.same(), asks, settings).await?;
            request.format.identify(asked.request_id, &self.state.clock);
            let span = self.begin_span(headers, key, &request);
            let (state, settings, key) = (self.state.clone(), settings.clone(), key.clone());
            Ok::<_, ApiError>(PendingExchange {
                state,
                settings,
                key,
                request,
                request_id: asked.request_id.to_owned(),
                span,
            })
        };
        // Boxed to keep the futures of other requests small.
        let response = Box::pin(self.resumption.answer(asked, begin)).await?;
        Ok(response.map(|body| body.holding(held)))
    }

    async fn complete(
        &self,
        mut request: FormattedRequest,
        key: Arc<GatewayKey>,
        settings: &Arc<GatewaySettings>,
        request_id: &str,
        completions: &ConnectionCompletions,
        span: Option<CompletionSpan>,
    ) -> Response<GatewayBody> {
        request.format.identify(request_id, &self.state.clock);
        let (state, settings, request_id) = (self.state.clone(), settings.clone(), request_id.to_owned());
        let (drains, account, longest) = (self.state.drains.clone(), key.payer.clone(), request.time_limit());
        let complete = |caller: CompletionCaller| {
            exchange::complete(state, settings, key, request, request_id, caller.with_span(span))
        };
        let held = self.state.under_way.begin(completions);
        let response = DrainOnDrop::new(drains, account, longest, complete).await;
        response.map(|body| body.holding(held))
    }
}

/// Validates a body and writes the provider's. Large bodies go to a blocking thread so as not to delay other requests.
async fn validate_request(
    api: CompletionApi,
    body: ReadBody,
    asks: &RequestLimits,
    settings: &Arc<GatewaySettings>,
) -> Result<FormattedRequest, ApiError> {
    read_request(body, asks, settings, move |body, models, asks| api.read(body, models, asks)).await
}

async fn read_request<R: Send + 'static>(
    body: ReadBody,
    asks: &RequestLimits,
    settings: &Arc<GatewaySettings>,
    read: impl FnOnce(ReadBody, &ServedModels, &RequestLimits) -> Result<R, ApiError> + Send + 'static,
) -> Result<R, ApiError> {
    if body.bytes.len() < limits::JUDGED_APART_BYTES {
        return read(body, &settings.models, asks);
    }
    let (asks, settings) = (asks.clone(), settings.clone());
    let judging = tokio::task::spawn_blocking(move || read(body, &settings.models, &asks));
    // Fails when the runtime stops.
    judging.await.unwrap_or_else(|_| Err(ApiError::busy()))
}
