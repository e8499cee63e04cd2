//! The front: determines which place a request is for, and dispatches it.
//!
//! The content of responses is decided in the modules below: sites, gateway, platform. [`host`] reads the host,
//! [`ResolvedHost::classify`] classifies it. Start with [`HostRouter::answer`].

mod body;
mod challenge;
mod host;
mod place;
mod redirect;
mod refusal;
mod settings;

use std::{net::IpAddr, sync::Arc};

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use config::{Config, HttpMode};
use domain::{
    Timestamp,
    addresses::{HostKey, HostKind, PlatformAddresses},
    site::Site,
};
use edge_metrics as metrics;
use fairness::{
    Client,
    budget::{BudgetAccount, ByteBudget},
};
use gateway::Gateway;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_types::{BodyError, HttpFault, SERVER, SiteBody, Visit, Visitor, clients::TopClients, drain, pages, pinned};
use memory::{CacheReadError, Cached, ChallengeReader, RouteCache};
use platform::{PlatformProxy, PublicName};
use sites::SiteService;
use telemetry::{OutageLine, OutageLog};
use traffic::{ClientClaim, CountedRequest, Country, TrafficCounter};

pub use self::refusal::{ResponseForm, cookies_too_large};
pub use self::{
    body::ResponseBody,
    place::{ClientConnection, ResolvedHost},
    settings::FrontSettings,
};

/// `Strict-Transport-Security` under our own domains: the customary year.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");
/// `Strict-Transport-Security` at custom domains: a month. The owner may one day move the domain to a server without
/// TLS, and browsers that were here refuse that until it expires. The site's `_headers` can override it.
const HSTS_ELSEWHERE: HeaderValue = HeaderValue::from_static("max-age=2592000");

/// Dispatches requests to sites, the gateway and the platform.
pub struct HostRouter {
    addresses: PlatformAddresses,
    routes: Arc<RouteCache>,
    challenges: Arc<ChallengeReader>,
    sites: SiteService,
    platform: PlatformProxy,
    gateway: Arc<Gateway>,
    talkers: Arc<TopClients>,
    /// `None` if traffic is not counted.
    traffic: Option<&'static TrafficCounter>,
    budget: ByteBudget,
    settings: ArcSwap<FrontSettings>,
    /// The port of our public HTTPS addresses, if it is not 443.
    public_port: Option<u16>,
}

enum RouteTarget {
    Site(Arc<Site>),
    Platform,
    Gateway,
    /// This page is sent, because the place has nothing else.
    Nothing(Box<Response<SiteBody>>),
}

impl HostRouter {
    /// Creates a front over the given services. Site visits are counted in `traffic` when it is `Some`.
    #[expect(clippy::too_many_arguments, reason = "the parts of the program, each named where it is made")]
    pub fn new(
        config: &Config,
        routes: Arc<RouteCache>,
        challenges: Arc<ChallengeReader>,
        sites: SiteService,
        platform: PlatformProxy,
        gateway: Arc<Gateway>,
        budget: ByteBudget,
        talkers: Arc<TopClients>,
        traffic: Option<&'static TrafficCounter>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            addresses: config.site.addresses(),
            routes,
            challenges,
            sites,
            platform,
            gateway,
            talkers,
            traffic,
            budget,
            settings: ArcSwap::from_pointee(FrontSettings::from_config(&config.edge, None)?),
            public_port: config.site.base_url.port(),
        })
    }

    /// Returns the current settings. Do not hold them across an await.
    pub fn settings(&self) -> Guard<Arc<FrontSettings>> {
        self.settings.load()
    }

    /// Replaces the settings, for future requests and connections.
    pub fn use_settings(&self, settings: FrontSettings) {
        self.settings.store(Arc::new(settings));
    }

    /// Returns the account of a connection from `peer`. A trusted proxy does not count as a client.
    pub fn account(&self, peer: IpAddr) -> BudgetAccount {
        self.budget.account((!self.settings().trusted.contains(peer)).then(|| Client::from(peer)))
    }

    /// Returns the bytes of memory in use, by purpose.
    pub fn memory_used(&self) -> [(&'static str, u64); 7] {
        let [bodies, manifests] = self.sites.memory_used();
        let routes = self.routes.bytes();
        let [answers, requests] = self.gateway.memory_used();
        [
            ("in_flight", self.budget.used()),
            ("bodies", bodies),
            ("manifests", manifests),
            ("routes", routes),
            ("platform", self.platform.memory_used()),
            ("answers", answers),
            ("requests", requests),
        ]
    }

    /// Returns the AI gateway, which answers the requests for its host.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Returns the proxy to admin, which answers the requests for the API and the console.
    pub fn platform(&self) -> &PlatformProxy {
        &self.platform
    }

    /// Returns the current time by the clock of the sites' service.
    pub fn now(&self) -> Timestamp {
        self.sites.now()
    }

    /// Returns the place that `peer` named in the TLS handshake. `None` for a trusted proxy, which sends all its
    /// visitors' requests over few connections, whatever name it gave.
    pub fn connected_place(&self, peer: IpAddr, server_name: &str) -> Option<Arc<ResolvedHost>> {
        if self.settings().trusted.contains(peer) {
            return None;
        }
        Some(Arc::new(ResolvedHost::classify(&self.addresses, &server_name.to_ascii_lowercase())))
    }

    /// Answers a request.
    pub async fn answer<B>(&self, request: Request<B>, connection: &ClientConnection) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static,
    {
        let (visitor, http_mode) = {
            let settings = self.settings();
            (
                Visitor::from_request(connection.peer, connection.tls, request.headers(), &settings.trusted),
                settings.http_mode,
            )
        };
        // A trusted proxy's connection is counted for no client, so what its visitors receive is counted here.
        let proxied = (visitor.address != connection.peer).then(|| self.talkers.tally(visitor.address));
        if let Some(tally) = &proxied {
            tally.count_request();
        }
        let (is_platform, mut response) = match host::request_host(request.version(), request.uri(), request.headers())
        {
            Ok(host) if request.method() != Method::CONNECT => {
                let place = self.resolve_place(&host, connection);
                (place.is_platform(), self.answer_at(&place, request, connection, visitor, http_mode).await)
            }
            _ => (false, malformed_response(&request, connection)),
        };
        if response.body().is_pulled() && !is_platform {
            metrics::site(response.status());
        }
        if let Some(tally) = proxied {
            tally.count_bytes(usize::try_from(response.body().least_left()).unwrap_or(usize::MAX));
        }
        response.headers_mut().insert(header::SERVER, SERVER);
        response
    }

    /// Returns the place at `host`: nearly always that of the connection.
    fn resolve_place(&self, host: &str, connection: &ClientConnection) -> Arc<ResolvedHost> {
        match &connection.place {
            Some(connected) if *connected.host == *host => connected.clone(),
            _ => Arc::new(ResolvedHost::classify(&self.addresses, host)),
        }
    }

    async fn answer_at<B>(
        &self,
        place: &ResolvedHost,
        request: Request<B>,
        connection: &ClientConnection,
        visitor: Visitor,
        http_mode: HttpMode,
    ) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static,
    {
        if let Some(token) = challenge::token(request.method(), request.uri())
            && let Some(answer) = Box::pin(self.challenge_response(place, request.method(), token, visitor)).await
        {
            return answer.map(ResponseBody::Site);
        }
        if http_mode == HttpMode::Redirect && !visitor.tls {
            return Box::pin(self.redirect(place, request.method(), request.uri(), visitor)).await;
        }
        let is_misdirected =
            connection.place.as_ref().is_some_and(|connected| !connected.shares_connections_with(place));
        let found = if is_misdirected {
            nothing(
                request.method(),
                refusal::refuse(ResponseForm::at(Some(place)), HttpFault::Misdirected, request.headers()),
            )
        } else {
            match &place.kind {
                HostKind::Site(key) => match self.routes.cached(&place.host) {
                    Cached::Present(site) => RouteTarget::Site(site),
                    Cached::Absent | Cached::Unknown => {
                        Box::pin(self.find(place, key, request.method(), visitor)).await
                    }
                },
                HostKind::Api | HostKind::Console => RouteTarget::Platform,
                HostKind::Gateway => RouteTarget::Gateway,
                HostKind::Unknown => nothing(request.method(), pages::unknown_host()),
            }
        };
        let hsts = if visitor.tls && http_mode == HttpMode::Redirect { hsts(place, &found) } else { None };
        let mut response = match found {
            RouteTarget::Site(site) => self.visit(site, place, request, connection, visitor).await,
            // Boxed, like everything rare: the future of a request is moved, and as large as its largest branch.
            RouteTarget::Platform => pinned(|| self.hand_over(request, place, visitor, connection)).await,
            RouteTarget::Gateway => {
                let ClientConnection { account, completions, .. } = connection;
                let answer = || self.gateway.answer(request, visitor.address, account, completions);
                pinned(answer).await.map(ResponseBody::Gateway)
            }
            RouteTarget::Nothing(page) => page.map(ResponseBody::Site),
        };
        if let Some(hsts) = hsts {
            response.headers_mut().entry(header::STRICT_TRANSPORT_SECURITY).or_insert(hsts);
        }
        response
    }

    /// Returns the site at `place`, reading it if it is not cached.
    async fn find(&self, place: &ResolvedHost, key: &HostKey, method: &Method, visitor: Visitor) -> RouteTarget {
        match self.routes.site(&place.host, key, visitor.address.into()).await {
            Ok(Some(site)) => RouteTarget::Site(site),
            Ok(None) => nothing(method, absent(key)),
            Err(error) => nothing(method, unread(place, &error)),
        }
    }

    async fn hand_over<B>(
        &self,
        request: Request<B>,
        place: &ResolvedHost,
        visitor: Visitor,
        connection: &ClientConnection,
    ) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static,
    {
        let name = PublicName::from_request(&request, &place.host, &place.kind, visitor);
        if let Some(kept) = name.as_ref().and_then(|name| self.platform.cached_response(name, &request)) {
            return kept.map(ResponseBody::Site);
        }
        // A trusted proxy's connection carries many visitors' requests.
        let places = (!self.settings().trusted.contains(connection.peer)).then(|| connection.platform_places());
        let account = &connection.account;
        match self.platform.hand_over(request, &place.host, name.as_ref(), visitor, places, account).await {
            Ok(response) => response.map(ResponseBody::Handed),
            Err(answer) => answer.map(ResponseBody::Site),
        }
    }

    async fn visit<B>(
        &self,
        site: Arc<Site>,
        place: &ResolvedHost,
        request: Request<B>,
        connection: &ClientConnection,
        visitor: Visitor,
    ) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin,
    {
        let (head, body) = request.into_parts();
        let host = place.host.clone();
        let counted = self.traffic.map(|traffic| {
            let Parts { method, uri, headers, .. } = &head;
            let (address, tls) = (visitor.address, visitor.tls);
            let claim = ClientClaim { method, uri, host: &host, headers, address, tls };
            (traffic, traffic.classify_client(&claim, &site.project))
        });
        let agent = counted.as_ref().and_then(|(_, client)| client.agent());
        let country = counted.as_ref().map(|(traffic, _)| connection.country(traffic, visitor.address));
        let visit = Visit {
            client: visitor.address,
            tls: visitor.tls,
            host,
            public_port: self.public_port,
            agent,
            country: country.and_then(Country::code),
        };
        let mut response = match head.method {
            Method::GET | Method::HEAD => self.sites.respond(&head, body, &visit, &site).await,
            _ => Box::pin(self.visit_with_body(&site, &visit, &head, body)).await,
        };
        if site.is_over_bandwidth(|| self.now()) {
            response = self.settings().paces.pace_response(response, &site, visitor.address.into());
        }
        let Some(((traffic, client), country)) = counted.zip(country) else { return response.map(ResponseBody::Site) };
        // References are moved where possible: a new one costs at both of its ends.
        let counted_host = if visit.host == place.counted_host { visit.host } else { place.counted_host.clone() };
        let path = head.uri.into_parts().path_and_query;
        let requested = CountedRequest { site, host: counted_host, country, path, client };
        let is_own = |site: &Site, host: &str| {
            host == &*place.host
                || host == &*place.counted_host
                || matches!(self.routes.cached(host), Cached::Present(other) if other.project == site.project)
        };
        // Built in one step, because a response is moved often.
        match traffic.follow(requested, &response, is_own) {
            Some(receipt) => response.map(|body| ResponseBody::Counted(receipt.into_counted(body))),
            None => response.map(ResponseBody::Site),
        }
    }

    async fn visit_with_body<B>(&self, site: &Site, visit: &Visit, head: &Parts, mut body: B) -> Response<SiteBody>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin,
    {
        let answer = async {
            let response = self.sites.respond(head, &mut body, visit, site).await;
            if !head.headers.contains_key(header::EXPECT) {
                drain(&mut body).await;
            }
            response
        };
        if let Ok(response) = tokio::time::timeout(limits::SITE_REQUEST_BODY_WAIT, answer).await {
            return response;
        }
        let mut response = pages::bad_request();
        *response.status_mut() = StatusCode::REQUEST_TIMEOUT;
        closing(response)
    }
}

/// Returns the HSTS header, if any. A custom domain has one only while a site is there, not once it is detached.
fn hsts(place: &ResolvedHost, found: &RouteTarget) -> Option<HeaderValue> {
    match found {
        _ if place.is_own => Some(HSTS),
        RouteTarget::Site(_) => Some(HSTS_ELSEWHERE),
        RouteTarget::Platform | RouteTarget::Gateway | RouteTarget::Nothing(_) => None,
    }
}

fn nothing(method: &Method, page: Response<SiteBody>) -> RouteTarget {
    RouteTarget::Nothing(Box::new(pages::seen_by(method, page)))
}

fn absent(key: &HostKey) -> Response<SiteBody> {
    match key {
        HostKey::Share(_) => pages::share_ended(),
        HostKey::Domain(_) => pages::unattached_domain(),
        HostKey::Project(_) | HostKey::Deployment(..) => pages::unknown_host(),
    }
}

/// Returns the response to send instead of `another` if there is no memory for it. A response without a body stays
/// without one, since the client may expect none, such as after HEAD.
pub fn exhausted_response(another: Response<ResponseBody>) -> Response<ResponseBody> {
    let mut response = pages::unavailable();
    if another.body().left() == 0 {
        response = pages::seen_by(&Method::HEAD, response);
    }
    response.headers_mut().insert(header::SERVER, SERVER);
    response.headers_mut().insert(header::RETRY_AFTER, limits::FLIGHT_RETRY_SECONDS.into());
    let status = response.status();
    response.map(|page| another.into_body().replaced_by_page(status, page))
}

fn unread(place: &ResolvedHost, error: &CacheReadError) -> Response<SiteBody> {
    static UNREAD: OutageLog = OutageLog::new();
    if let CacheReadError::TooManyUnknown(wait) = error {
        return pages::too_many_unknown(*wait);
    }
    if let Some(OutageLine { left_out, .. }) = UNREAD.record_failure() {
        tracing::warn!(host = %place.host, %error, left_out, "the route could not be read");
    }
    pages::unavailable()
}

/// Returns the response to an invalid request, over a connection for a certain host or for none.
pub fn malformed_response<B>(request: &Request<B>, connection: &ClientConnection) -> Response<ResponseBody> {
    let form = ResponseForm::at(connection.place.as_deref());
    refusal::refuse(form, HttpFault::Malformed, request.headers()).map(ResponseBody::Site)
}

/// Closes the connection after the response, because nothing further on it can be trusted.
fn closing(mut response: Response<SiteBody>) -> Response<SiteBody> {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
