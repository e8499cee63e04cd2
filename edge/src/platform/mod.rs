//! The way to admin: the hosts of the API and the console.
//!
//! One HTTP implementation faces the visitor, with one set of limits: hyper. A request for the platform is handed from
//! it, through a pipe in memory, to pingora-proxy, which keeps the connections to the admins. [`exchange`] chooses a healthy admin,
//! and asks another when that is safe; [`proxy`] is what pingora-proxy asks of us, [`admins`] the admins, and [`health`] what looks
//! at them. A request is given up once its admin has hung.
//!
//! Every request that is handed over takes an open file, so they have turns: so many in all, of a client, and on a
//! connection. A body that is small has come before its request takes one, and it is given back when admin's answer has ended, which
//! then waits for its client in counted memory ([`relay`]). Where they run short nonetheless, they are taken back from clients that
//! let the others wait ([`held`]). What is the same for everybody is kept ([`cache`]), and asked for again without any of that. Start with [`Platform::hand_over`].

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
use fairness::{
    Bounds, Client, Refused, Turns,
    budget::{Account, Budget, Limits},
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};
use pingora::{proxy::http_proxy, server::configuration::ServerConf};
use secrets::{
    EdgeKey,
    edge_proof::{self, HandedRequest},
};
use tokio::{sync::Semaphore, time::timeout};

use self::{
    admins::Admins,
    answers::{Asked, Failure},
    body::{BegunBody, BodyMemory},
    cache::{CACHE_NAME, PlatformCache, SURROGATE_KEY},
    exchange::{ELSEWHERE, Exchanges},
    held::{Held, Holders, Watched},
    proxy::Proxy,
};
pub use self::{admins::Upstreams, relay::HandedBody};
pub(crate) use self::{answers::refusal, cache::PublicName};
use crate::{
    clients::Talkers,
    http::{BodyError, FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO, RequestIds, SiteBody, Visitor, X_REQUEST_ID},
    limits::{self, Shares},
    memory::Marks,
    metrics,
};

/// Fields that concern one connection only, or would tell admin what a visitor says of itself.
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

/// Shows admin that the request comes from an edge.
const EDGE_PROOF: HeaderName = HeaderName::from_static(edge_proof::HEADER);

/// Hands requests on to the admins.
pub struct Platform {
    exchanges: Exchanges,
    cache: PlatformCache,
    /// Requests in flight.
    requests: Turns<Client>,
    holders: Holders,
    /// Those of them whose answers are streams of events, which end when their clients leave.
    event_streams: Turns<Client>,
    /// Requests whose bodies are being read.
    bodies: Turns<Client>,
    /// What has come of the bodies of requests that are not handed on yet.
    body_bytes: Account,
    request_ids: RequestIds,
    key: EdgeKey,
    clock: Clock,
    talkers: Arc<Talkers>,
}

impl Platform {
    /// A proxy to the admins at `upstreams` that has up to `requests` in flight, and keeps public answers within `shares` until a change
    /// reaches `marks`. The key proves to admin that requests come from an edge.
    pub fn new(
        upstreams: Upstreams,
        threads: usize,
        requests: usize,
        shares: &Shares,
        marks: Arc<Marks>,
        (key, clock): (EdgeKey, Clock),
        talkers: Arc<Talkers>,
    ) -> Self {
        let admins = Arc::new(Admins::new(upstreams));
        let cache = PlatformCache::new(shares, marks);
        // Pingora tries once: `exchange` decides whether a request may be made again.
        let conf = ServerConf { threads, max_retries: 1, ..ServerConf::default() };
        let exchanges = Exchanges::new(http_proxy(&Arc::new(conf), Proxy::new(cache)), admins);
        let waiting = Bounds {
            total: requests,
            share: limits::PLATFORM_REQUESTS_PER_CLIENT,
            waiting: limits::PLATFORM_WAITING,
            waiting_share: limits::PLATFORM_WAITING_PER_CLIENT,
        };
        let bodies = Bounds { total: limits::PLATFORM_BODIES, share: limits::PLATFORM_BODIES_PER_CLIENT, ..waiting };
        // However many of them there are, there are places for requests that are answered.
        let event_streams = Turns::new(Bounds {
            total: (requests / 2).max(1),
            share: limits::PLATFORM_EVENT_STREAMS_PER_CLIENT,
            ..waiting
        });
        let (requests, bodies) = (Turns::new(waiting), Turns::new(bodies));
        let total = shares.in_flight / limits::PLATFORM_BODIES_DIVISOR;
        let body_bytes = Budget::new(Limits { total, client: total, connection: total }).common_account();
        let (request_ids, holders) = (RequestIds::new(), Holders::default());
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

    /// As many requests as may be in flight where the process may open `files`: those that are `configured`, unless that is 0.
    pub fn requests_allowed(files: usize, configured: usize) -> usize {
        match configured {
            0 => (files / limits::PLATFORM_FILES_SHARE).clamp(1, limits::PLATFORM_REQUESTS),
            configured => configured.min(files / limits::PLATFORM_MOST_FILES_SHARE).max(1),
        }
    }

    /// Places for the requests of one connection.
    pub(crate) fn places() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(limits::PLATFORM_REQUESTS_PER_CONNECTION))
    }

    /// Makes those at `upstreams` the admins for requests from now on.
    pub(crate) fn use_upstreams(&self, upstreams: Upstreams) {
        self.exchanges.admins.use_upstreams(upstreams);
    }

    /// Whether any admin was healthy when it was last looked at.
    pub fn has_admin(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let admins = self.exchanges.admins.clone();
        move || admins.has_healthy(&[])
    }

    /// Resolves the admins' names and looks at their health for as long as it is polled.
    pub fn health_watch(&self) -> impl Future<Output = ()> + Send + 'static {
        health::watch(self.exchanges.admins.clone())
    }

    /// Bytes of memory that kept answers take.
    pub(crate) fn memory_used(&self) -> u64 {
        self.cache.bytes()
    }

    /// Answers a request for `name` with what is kept of admin's answers, if it is there.
    pub(crate) fn kept<B>(&self, name: &PublicName, request: &Request<B>) -> Option<Response<SiteBody>> {
        let mut answer = self.cache.answer(name, request.method(), request.headers())?;
        answer.headers_mut().insert(X_REQUEST_ID, self.request_ids.of(request.headers()));
        Some(answer)
    }

    /// Answers `request` with what an admin says to it; fails with an answer of ours when none can. What has a `name` is kept, if
    /// admin's answer allows it. `places` are those of the request's connection, if it has a bound of its own.
    pub(crate) async fn hand_over<B>(
        &self,
        mut request: Request<B>,
        host: &str,
        name: Option<&PublicName>,
        visitor: Visitor,
        places: Option<Arc<Semaphore>>,
        account: &Account,
    ) -> Result<Response<HandedBody>, Box<Response<SiteBody>>>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static,
    {
        let id = self.request_ids.of(request.headers());
        request.headers_mut().insert(X_REQUEST_ID, id.clone());
        let asked = Asked::of(request.method(), request.uri(), request.headers(), id);
        let answering = async {
            let (request, held) = self.admit(request, visitor, places, account).await.inspect_err(|&failure| {
                if failure == Failure::Busy {
                    self.talkers.tally(visitor.address).refused();
                }
            })?;
            self.exchange(request, host, name, visitor, held, asked.is_health()).await
        };
        let answered = if asked.is_health() {
            timeout(limits::HEALTH_ANSWER, answering).await.unwrap_or(Err(Failure::NoAdmin))
        } else {
            answering.await
        };
        answered.map_err(|failure| Box::new(asked.failed(failure)))
    }

    /// Waits for a place on the connection, for what is read of the body, for memory, and for a turn, in this order: what a client makes
    /// us wait for holds nothing that others need, except for memory of what has come, of which each client has a share.
    async fn admit<B>(
        &self,
        request: Request<B>,
        visitor: Visitor,
        places: Option<Arc<Semaphore>>,
        account: &Account,
    ) -> Result<(Request<BegunBody<Watched<B>>>, Held), Failure>
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
        let is_to_be_read = BegunBody::is_to_be_read(&body);
        let patience = if is_to_be_read { limits::BODY_PATIENCE } else { limits::HANDED_PATIENCE };
        // The client's as a whole: an answer that waits is not to be in the way of a site's on the same connection.
        let account = account.of_client();
        if account.is_short() {
            self.take_one_back();
        }
        let holder = self.holders.add(client);
        let body = Watched::new(body, &holder);
        let mut memory = BodyMemory::new(account.clone(), self.body_bytes.clone());
        let (body, reading) = if is_to_be_read {
            let reading = self.bodies.take(&client, limits::PLATFORM_WAIT).await.map_err(refused)?;
            let body = tokio::select! {
                biased;
                () = holder.taken_back() => return Err(busy("client")),
                body = body.read(&mut memory) => body?,
            };
            (body, Some(reading))
        } else {
            (BegunBody::unread(body), None)
        };
        // The way to admin takes memory of its own, for as long as the answer is not read. A body that has come waits for it in what bodies
        // may have, which leaves some for the way: or those that have come would keep each other from going on.
        let Ok(mut grant) = account.take(limits::HANDED_BYTES, patience).await else {
            metrics::exhausted();
            return Err(busy("memory"));
        };
        if let Some(held) = memory.into_client_grant() {
            grant.merge(held);
        }
        // After the body: who sends none in time holds none of these.
        let event_stream =
            is_event_stream.then(|| self.event_streams.try_take(&client)).transpose().map_err(refused)?;
        self.make_room(&self.requests);
        let turn = self.requests.take(&client, limits::PLATFORM_WAIT).await.map_err(refused)?;
        drop(reading);
        let held =
            Held { holder, _turn: turn, _event_stream: event_stream, _place: place, grant: Mutex::new(Some(grant)) };
        Ok((Request::from_parts(head, body), held))
    }

    /// Takes a turn back where hardly any of `turns` are left.
    fn make_room(&self, turns: &Turns<Client>) {
        if turns.taken() * 100 >= turns.bounds().total * limits::PLATFORM_CROWDED_PERCENT {
            self.take_one_back();
        }
    }

    fn take_one_back(&self) {
        if self.holders.take_one_back() {
            metrics::platform_taken_back();
        }
    }

    async fn exchange<B>(
        &self,
        mut request: Request<BegunBody<B>>,
        host: &str,
        name: Option<&PublicName>,
        visitor: Visitor,
        held: Held,
        is_health: bool,
    ) -> Result<Response<HandedBody>, Failure>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static,
    {
        let unfit = |error| {
            tracing::warn!(%error, "a request could not be handed to admin");
            Failure::NoAdmin
        };
        prepare(&mut request, host, visitor).map_err(unfit)?;
        let id = request.headers().get(X_REQUEST_ID).cloned();
        if let Some(name) = name {
            PlatformCache::announce(name, request.headers_mut());
        }
        // Last: what is public has no fields of anybody but this one.
        self.prove(&mut request).map_err(unfit)?;
        let (head, body) = request.into_parts();
        let mut response = self.exchanges.answer(head, body.share(), held, is_health).await?;
        strip_connection_fields(response.headers_mut());
        let headers = response.headers_mut();
        headers.remove(header::TRANSFER_ENCODING);
        headers.remove(SURROGATE_KEY);
        headers.remove(ELSEWHERE);
        if name.is_some() {
            // What the proxy adds for its cache: kept answers do not age, and admin says nothing of ranges. Nor does any carry another
            // request's id.
            headers.remove(header::AGE);
            headers.remove(header::ACCEPT_RANGES);
            if let Some(id) = id {
                headers.insert(X_REQUEST_ID, id);
            }
        }
        *response.version_mut() = http::Version::default();
        Ok(response)
    }

    /// Proves to admin that the request comes from an edge.
    fn prove<B>(&self, request: &mut Request<B>) -> anyhow::Result<()> {
        // In place of what the visitor may have sent under this name.
        request.headers_mut().remove(EDGE_PROOF);
        for proof in self.key.proofs(&handed(request), self.clock.now()) {
            let mut proof = HeaderValue::try_from(proof)?;
            proof.set_sensitive(true);
            request.headers_mut().append(EDGE_PROOF, proof);
        }
        Ok(())
    }
}

fn refused(refused: Refused) -> Failure {
    busy(match refused {
        Refused::Share => "client",
        Refused::Full => "process",
    })
}

fn busy(bound: &'static str) -> Failure {
    metrics::platform_refused(bound);
    Failure::Busy
}

/// What a proof covers of a request in the form in which admin gets it.
fn handed<B>(request: &Request<B>) -> HandedRequest<'_> {
    let field = |name| request.headers().get(name).map_or(&[][..], HeaderValue::as_bytes);
    HandedRequest {
        method: request.method().as_str(),
        path: request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str),
        host: field(header::HOST),
        client: field(FORWARDED_FOR),
        scheme: field(FORWARDED_PROTO),
    }
}

/// Makes the target, the version and the fields about the visitor those that admin reads.
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

/// Also what `Connection` names, so that nobody can have the proxy drop a field that admin relies on: ours are set after.
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
