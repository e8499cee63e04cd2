//! The proxy to admin, for the hosts of the API and the console.
//!
//! One HTTP implementation with one set of limits faces the visitor: hyper. It passes platform requests through an
//! in-memory pipe to pingora-proxy, which maintains the connections to the admins. [`exchange`] chooses a healthy
//! admin, and retries at another when that is safe; [`proxy`] implements pingora-proxy's callbacks, [`admins`] holds
//! the admins, and [`health`] checks them. A request is given up once its admin hangs.
//!
//! Every proxied request takes an open file, so requests take turns, limited in total, per client, and per connection.
//! A small body has arrived before its request takes a turn, and the turn is released when admin's response has ended,
//! which then waits for its client in charged memory ([`relay`]). If turns run short nonetheless, they are revoked from
//! clients that hold up others ([`held`]). Responses that are the same for everybody are cached ([`cache`]) and need
//! none of that. Start with [`PlatformProxy::hand_over`].

mod admins;
mod answers;
mod attempt;
mod body;
mod cache;
mod exchange;
mod health;
mod held;
mod proxy;
mod relay;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use domain::Clock;
use edge_metrics as metrics;
use fairness::{
    Client, ShareError, TurnBounds, TurnQueue,
    budget::{BudgetAccount, BudgetLimits, ByteBudget},
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};
use http_types::{
    BodyError, FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO, RequestIds, SiteBody, Visitor, X_REQUEST_ID,
    clients::TopClients,
};
use limits::MemoryShares;
use memory::ChangeMarks;
use pingora::{proxy::http_proxy, server::configuration::ServerConf};
use secrets::{
    EdgeKey,
    edge_proof::{self, ForwardedRequest},
};
use tokio::{sync::Semaphore, time::timeout};

use self::{
    admins::AdminPool,
    answers::{AnswerContext, PlatformFailure},
    body::{BodyMemory, BufferedBody},
    cache::{CACHE_NAME, PlatformCache, SURROGATE_KEY},
    exchange::{AdminExchanges, ELSEWHERE},
    held::{HeldResources, ResourceHolders, WatchedBody},
    proxy::AdminProxy,
};
pub use self::{admins::AdminUpstreams, relay::AdminBody};
pub use self::{answers::refusal, cache::PublicName};

/// Headers that concern one connection only, or would pass a visitor's own claims to admin.
const NOT_HANDED_ON: [HeaderName; 9] = [
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::EXPECT,
    header::FORWARDED,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("x-real-ip"),
    CACHE_NAME,
];

/// The paths of the event stream: at the API's host, and below `/api` at the console's.
const EVENT_PATHS: [&str; 2] = ["/events", "/api/events"];

/// The header that proves to admin that the request comes from an edge.
const EDGE_PROOF: HeaderName = HeaderName::from_static(edge_proof::HEADER);

/// Proxies requests to the admins.
pub struct PlatformProxy {
    exchanges: AdminExchanges,
    cache: PlatformCache,
    requests: TurnQueue<Client>,
    holders: ResourceHolders,
    /// Requests in flight whose responses are event streams, which end when their clients disconnect.
    event_streams: TurnQueue<Client>,
    bodies: TurnQueue<Client>,
    /// Received bytes of bodies whose requests are not proxied yet.
    body_bytes: BudgetAccount,
    request_ids: RequestIds,
    key: EdgeKey,
    clock: Clock,
    talkers: Arc<TopClients>,
}

impl PlatformProxy {
    /// Creates a proxy to the admins at `upstreams` with up to `requests` in flight. It caches public responses within
    /// `shares` until a change reaches `marks`. The key proves that requests come from an edge.
    pub fn new(
        upstreams: AdminUpstreams,
        threads: usize,
        requests: usize,
        shares: &MemoryShares,
        marks: Arc<ChangeMarks>,
        (key, clock): (EdgeKey, Clock),
        talkers: Arc<TopClients>,
    ) -> Self {
        let admins = Arc::new(AdminPool::new(upstreams));
        let cache = PlatformCache::new(shares, marks);
        // Pingora tries once: `exchange` decides about retries.
        let conf = ServerConf { threads, max_retries: 1, ..ServerConf::default() };
        let exchanges = AdminExchanges::new(http_proxy(&Arc::new(conf), AdminProxy::new(cache)), admins);
        let waiting = TurnBounds {
            total: requests,
            share: limits::PLATFORM_REQUESTS_PER_CLIENT,
            waiting: limits::PLATFORM_WAITING,
            waiting_share: limits::PLATFORM_WAITING_PER_CLIENT,
        };
        let bodies =
            TurnBounds { total: limits::PLATFORM_BODIES, share: limits::PLATFORM_BODIES_PER_CLIENT, ..waiting };
        // However many event streams there are, turns remain for other requests.
        let event_streams = TurnQueue::new(TurnBounds {
            total: (requests / 2).max(1),
            share: limits::PLATFORM_EVENT_STREAMS_PER_CLIENT,
            ..waiting
        });
        let (requests, bodies) = (TurnQueue::new(waiting), TurnQueue::new(bodies));
        let total = shares.in_flight / limits::PLATFORM_BODIES_DIVISOR;
        let body_bytes = ByteBudget::new(BudgetLimits { total, client: total, connection: total }).common_account();
        let (request_ids, holders) = (RequestIds::default(), ResourceHolders::default());
        Self {
            exchanges,
            cache,
            requests,
            holders,
            event_streams,
            bodies,
            body_bytes,
            request_ids,
            key,
            clock,
            talkers,
        }
    }

    /// Returns the maximum of requests in flight, `configured` or by default, for a process that may open `files`.
    pub fn requests_allowed(files: usize, configured: usize) -> usize {
        match configured {
            0 => (files / limits::PLATFORM_FILES_SHARE).clamp(1, limits::PLATFORM_REQUESTS),
            configured => configured.min(files / limits::PLATFORM_MOST_FILES_SHARE).max(1),
        }
    }

    /// Creates the slots that limit the platform requests in flight on one connection.
    pub fn connection_slots() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(limits::PLATFORM_REQUESTS_PER_CONNECTION))
    }

    /// Replaces the admins: those with an IP address immediately, those with a name once it is resolved.
    pub fn use_upstreams(&self, upstreams: AdminUpstreams) {
        self.exchanges.admins.use_upstreams(upstreams);
    }

    /// Returns a check whether any admin was healthy at its last health check.
    pub fn has_admin(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let admins = self.exchanges.admins.clone();
        move || admins.has_healthy(&[])
    }

    /// Resolves the admins' names and checks their health for as long as it is polled.
    pub fn health_watch(&self) -> impl Future<Output = ()> + Send + 'static {
        health::watch(self.exchanges.admins.clone())
    }

    /// Returns the bytes of memory that cached responses take.
    pub fn memory_used(&self) -> u64 {
        self.cache.bytes()
    }

    /// Returns the cached response to a request for `name`, if there is one.
    pub fn cached_response<B>(&self, name: &PublicName, request: &Request<B>) -> Option<Response<SiteBody>> {
        let mut answer = self.cache.answer(name, request.method(), request.headers())?;
        answer.headers_mut().insert(X_REQUEST_ID, self.request_ids.id_for(request.headers()));
        Some(answer)
    }

    /// Proxies `request` to an admin and returns its response; fails with a response of ours if no admin can answer.
    ///
    /// A response with a `name` is cached if admin allows it. `places` are the connection's, if it has its own limit.
    pub async fn hand_over<B>(
        &self,
        mut request: Request<B>,
        host: &str,
        name: Option<&PublicName>,
        visitor: Visitor,
        places: Option<Arc<Semaphore>>,
        account: &BudgetAccount,
    ) -> Result<Response<AdminBody>, Box<Response<SiteBody>>>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static,
    {
        let id = self.request_ids.id_for(request.headers());
        request.headers_mut().insert(X_REQUEST_ID, id.clone());
        let asked = AnswerContext::from_request(request.method(), request.uri(), request.headers(), id);
        let answering = async {
            let (request, held) = self.admit(request, visitor, places, account).await.inspect_err(|&failure| {
                if failure == PlatformFailure::Busy {
                    self.talkers.tally(visitor.address).count_refusal();
                }
            })?;
            self.exchange(request, host, name, visitor, held, asked.is_health()).await
        };
        let answered = if asked.is_health() {
            timeout(limits::HEALTH_ANSWER, answering).await.unwrap_or(Err(PlatformFailure::NoAdmin))
        } else {
            answering.await
        };
        answered.map_err(|failure| Box::new(asked.failure_response(failure)))
    }

    /// Waits for a slot on the connection, the read part of the body, memory, and a turn, in this order. While it waits
    /// for the client, the request holds only memory for received bytes, of which each client has a share.
    async fn admit<B>(
        &self,
        request: Request<B>,
        visitor: Visitor,
        places: Option<Arc<Semaphore>>,
        account: &BudgetAccount,
    ) -> Result<(Request<BufferedBody<WatchedBody<B>>>, HeldResources), PlatformFailure>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
    {
        let client = Client::from(visitor.address);
        let place = match places {
            Some(places) => match timeout(limits::PLATFORM_WAIT, places.acquire_owned()).await {
                Ok(Ok(place)) => Some(place),
                Ok(Err(_)) | Err(_) => return Err(busy("connection")),
            },
            None => None,
        };
        let (head, body) = request.into_parts();
        let is_event_stream = EVENT_PATHS.contains(&head.uri.path());
        let is_to_be_read = BufferedBody::should_read(&body);
        let patience = if is_to_be_read { limits::BODY_PATIENCE } else { limits::HANDED_PATIENCE };
        // Charged to the client as a whole: a waiting response must not block a site's on the same connection.
        let account = account.client_account();
        if account.is_short() {
            self.revoke_one();
        }
        let holder = self.holders.add(client);
        let body = WatchedBody::new(body, &holder);
        let mut memory = BodyMemory::new(account.clone(), self.body_bytes.clone());
        let (body, reading) = if is_to_be_read {
            let reading = self.bodies.take(&client, limits::PLATFORM_WAIT).await.map_err(refused)?;
            let body = tokio::select! {
                biased;
                () = holder.revoked() => return Err(busy("client")),
                body = body.read(&mut memory) => body?,
            };
            (body, Some(reading))
        } else {
            (BufferedBody::unread(body), None)
        };
        // The proxy to admin takes its own memory until the response is read. A received body waits for it within the
        // share of bodies, which leaves some for the proxy: otherwise received bodies would block each other.
        let Ok(mut grant) = account.take(limits::HANDED_BYTES, patience).await else {
            metrics::exhausted();
            return Err(busy("memory"));
        };
        if let Some(held) = memory.into_client_grant() {
            grant.merge(held);
        }
        // After the body: a client that sends none in time holds none of these.
        let event_stream =
            is_event_stream.then(|| self.event_streams.try_take(&client)).transpose().map_err(refused)?;
        self.make_room(&self.requests);
        let turn = self.requests.take(&client, limits::PLATFORM_WAIT).await.map_err(refused)?;
        drop(reading);
        let held = HeldResources {
            holder,
            _turn: turn,
            _event_stream: event_stream,
            _place: place,
            grant: Mutex::new(Some(grant)),
        };
        Ok((Request::from_parts(head, body), held))
    }

    /// Revokes a turn if hardly any of `turns` are left.
    fn make_room(&self, turns: &TurnQueue<Client>) {
        if turns.in_use() * 100 >= turns.bounds().total * limits::PLATFORM_CROWDED_PERCENT {
            self.revoke_one();
        }
    }

    fn revoke_one(&self) {
        if self.holders.revoke_one() {
            metrics::platform_revoked();
        }
    }

    async fn exchange<B>(
        &self,
        mut request: Request<BufferedBody<B>>,
        host: &str,
        name: Option<&PublicName>,
        visitor: Visitor,
        held: HeldResources,
        is_health: bool,
    ) -> Result<Response<AdminBody>, PlatformFailure>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static,
    {
        let unfit = |error| {
            tracing::warn!(%error, "a request could not be handed to admin");
            PlatformFailure::NoAdmin
        };
        prepare(&mut request, host, visitor).map_err(unfit)?;
        let id = request.headers().get(X_REQUEST_ID).cloned();
        if let Some(name) = name {
            PlatformCache::normalize_request(name, request.headers_mut());
        }
        // Last, because public requests have no other headers than this one of ours.
        self.prove(&mut request).map_err(unfit)?;
        let (head, body) = request.into_parts();
        let mut response = self.exchanges.answer(head, body.share(), held, is_health).await?;
        strip_connection_fields(response.headers_mut());
        let headers = response.headers_mut();
        headers.remove(header::TRANSFER_ENCODING);
        headers.remove(SURROGATE_KEY);
        headers.remove(ELSEWHERE);
        if name.is_some() {
            // The proxy's cache adds an age, ranges, and another request's ID. But cached responses do not age, and
            // admin does not offer ranges.
            headers.remove(header::AGE);
            headers.remove(header::ACCEPT_RANGES);
            if let Some(id) = id {
                headers.insert(X_REQUEST_ID, id);
            }
        }
        *response.version_mut() = http::Version::default();
        Ok(response)
    }

    fn prove<B>(&self, request: &mut Request<B>) -> anyhow::Result<()> {
        // Replaces what the visitor may have sent under this name.
        request.headers_mut().remove(EDGE_PROOF);
        for proof in self.key.proofs(&proof_input(request), self.clock.now()) {
            let mut proof = HeaderValue::try_from(proof)?;
            proof.set_sensitive(true);
            request.headers_mut().append(EDGE_PROOF, proof);
        }
        Ok(())
    }
}

fn refused(refused: ShareError) -> PlatformFailure {
    busy(match refused {
        ShareError::Share => "client",
        ShareError::Full => "process",
    })
}

fn busy(bound: &'static str) -> PlatformFailure {
    metrics::platform_refused(bound);
    PlatformFailure::Busy
}

/// Returns the parts of a request that a proof covers, in the form in which admin receives them.
fn proof_input<B>(request: &Request<B>) -> ForwardedRequest<'_> {
    let field = |name| request.headers().get(name).map_or(&[][..], HeaderValue::as_bytes);
    ForwardedRequest {
        method: request.method().as_str(),
        path: request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str),
        host: field(header::HOST),
        client: field(FORWARDED_FOR),
        scheme: field(FORWARDED_PROTO),
    }
}

/// Rewrites the target, the version and the headers about the visitor for admin.
fn prepare<B>(request: &mut Request<B>, host: &str, visitor: Visitor) -> anyhow::Result<()> {
    let authority = match request.uri().authority() {
        Some(authority) => HeaderValue::from_str(authority.as_str())?,
        None => request.headers().get(header::HOST).cloned().unwrap_or(HeaderValue::from_str(host)?),
    };
    let target = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    *request.uri_mut() = Uri::try_from(target)?;
    *request.version_mut() = http::Version::HTTP_11;
    let headers = request.headers_mut();
    strip_connection_fields(headers);
    headers.insert(FORWARDED_FOR, HeaderValue::try_from(visitor.address.to_string())?);
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(if visitor.tls { "https" } else { "http" }));
    headers.insert(FORWARDED_HOST, authority.clone());
    headers.insert(header::HOST, authority);
    Ok(())
}

/// Removes the headers of one connection, including those that `Connection` names. Ours are set afterwards, so that a
/// visitor cannot have the proxy drop a header that admin relies on.
fn strip_connection_fields(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| ![header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::HOST].contains(name))
        .collect();
    for name in named.iter().chain(&NOT_HANDED_ON) {
        headers.remove(name);
    }
}
