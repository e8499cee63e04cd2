//! Every request's first stop: which host is it for, and who answers.

mod body;
mod host;
mod visitor;

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use config::{Config, HttpMode};
use domain::{
    Hostname,
    addresses::{Addresses, HostKey, HostKind},
    networks::{InvalidNetwork, Networks},
    site::Site,
};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

pub use self::body::Body;
pub(crate) use self::visitor::{FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO, Visitor};
use crate::{
    gateway::Gateway,
    limits, metrics,
    platform::Platform,
    route::{Recollection, RouteError, Routes},
    sites::{SiteBody, Sites, Visit, pages},
};

/// What every answer says of its server.
pub(crate) const SERVER: HeaderValue = HeaderValue::from_static(domain::BRAND);
/// A year, as is customary.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");
/// A month at custom domains: the name is its owner's, who may take it to a place without TLS one day, and browsers that
/// were here hold them to this until then. `_headers` of the site may say something else.
const HSTS_ELSEWHERE: HeaderValue = HeaderValue::from_static("max-age=2592000");

/// Chooses who answers a request.
pub struct Front {
    addresses: Addresses,
    routes: Arc<Routes>,
    sites: Sites,
    platform: Platform,
    gateway: Arc<Gateway>,
    trusted: Networks,
    http_mode: HttpMode,
    /// The port of our public HTTPS addresses, when it is not 443.
    public_port: Option<u16>,
}

/// What is known of the connection that a request came over.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The other end.
    pub peer: IpAddr,
    /// Whether it is TLS.
    pub tls: bool,
    /// Which application the visitor connected for, by the name it gave in the TLS handshake.
    pub application: Option<Application>,
}

/// The kinds of hosts. One connection is for one of them: a certificate for `*.{site_domain}` lets browsers send
/// the console's requests over a site's connection and the other way round, and the two shall not share a fate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Application {
    /// Sites under our own domains, and everything unknown.
    Sites,
    /// The control plane and the console.
    Platform,
    /// One custom domain and nothing else. Whoever watches the network sees the name of a connection, and shall not be
    /// told of one domain while another one is visited; and a certificate of several names moves no visit from its domain.
    Domain(Hostname),
}

impl Application {
    fn of(kind: HostKind) -> Self {
        match kind {
            HostKind::Api | HostKind::Console => Self::Platform,
            HostKind::Site(HostKey::Domain(name)) => Self::Domain(name),
            HostKind::Site(_) | HostKind::Gateway | HostKind::Unknown => Self::Sites,
        }
    }
}

impl Front {
    /// A front before these.
    pub fn new(
        config: &Config,
        routes: Arc<Routes>,
        sites: Sites,
        platform: Platform,
        gateway: Arc<Gateway>,
    ) -> Result<Self, InvalidNetwork> {
        Ok(Self {
            addresses: config.site.addresses(),
            routes,
            sites,
            platform,
            gateway,
            trusted: Networks::parse(&config.edge.trusted_proxies)?,
            http_mode: config.edge.http_mode,
            public_port: config.site.base_url.port(),
        })
    }

    /// The application behind the name that `peer` gave in the TLS handshake. A proxy that is trusted sends the requests
    /// of all its visitors over few connections, whatever name it gave: it is held to none.
    pub fn application(&self, peer: IpAddr, server_name: &str) -> Option<Application> {
        if self.trusted.contains(peer) {
            return None;
        }
        Some(Application::of(self.addresses.classify(&server_name.to_ascii_lowercase())))
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request<Incoming>, connection: &Connection) -> Response<Body> {
        let visitor = Visitor::of(connection.peer, connection.tls, request.headers(), &self.trusted);
        let mut response = match host::of(request.version(), request.uri(), request.headers()) {
            Ok(host) if request.method() != Method::CONNECT => {
                let host = host.into_owned();
                let is_own = self.addresses.is_own_host(&host);
                let mut response = self.answer_for(host, request, connection, visitor).await;
                if is_own {
                    self.insist_on_tls(&mut response, visitor, HSTS);
                }
                response
            }
            _ => malformed(),
        };
        if matches!(response.body(), Body::Site(_)) {
            metrics::site(response.status());
        }
        response.headers_mut().insert(header::SERVER, SERVER);
        response
    }

    fn insist_on_tls(&self, response: &mut Response<Body>, visitor: Visitor, policy: HeaderValue) {
        if visitor.tls && self.http_mode == HttpMode::Redirect {
            response.headers_mut().entry(header::STRICT_TRANSPORT_SECURITY).or_insert(policy);
        }
    }

    async fn answer_for(
        &self,
        host: String,
        request: Request<Incoming>,
        connection: &Connection,
        visitor: Visitor,
    ) -> Response<Body> {
        if self.http_mode == HttpMode::Redirect && !visitor.tls {
            return Box::pin(self.redirect(&host, &request)).await;
        }
        if let Recollection::Site(site) = self.routes.remembered(&host) {
            let is_for_here = match &connection.application {
                None => true,
                Some(Application::Platform) => false,
                Some(Application::Sites) => self.addresses.is_own_host(&host),
                Some(Application::Domain(name)) => name.as_str() == host,
            };
            return if is_for_here { self.visit(&site, host, request, visitor).await } else { misdirected() };
        }
        let kind = self.addresses.classify(&host);
        if connection.application.as_ref().is_some_and(|application| *application != Application::of(kind.clone())) {
            return misdirected();
        }
        match kind {
            // Boxed, like everything rare below: the future of a request is moved, and is as large as its largest branch.
            HostKind::Api | HostKind::Console => Box::pin(self.platform.hand_over(request, &host, visitor)).await,
            HostKind::Gateway => Box::pin(self.gateway.answer(request)).await.map(Body::Gateway),
            HostKind::Unknown => page(request.method(), pages::unknown_host()),
            HostKind::Site(key) => match Box::pin(self.routes.site(&host, &key)).await {
                Ok(Some(site)) => Box::pin(self.visit(&site, host, request, visitor)).await,
                Ok(None) => page(request.method(), absent(&key)),
                Err(error) => unread(&host, request.method(), &error),
            },
        }
    }

    async fn visit(&self, site: &Site, host: String, request: Request<Incoming>, visitor: Visitor) -> Response<Body> {
        let is_own = self.addresses.is_own_host(&host);
        let visit = Visit { client: visitor.address, tls: visitor.tls, host, public_port: self.public_port };
        let mut response = match *request.method() {
            Method::GET | Method::HEAD => self.sites.respond(request, &visit, site).await.map(Body::Site),
            _ => Box::pin(self.visit_with_body(site, &visit, request)).await,
        };
        // Elsewhere only where a site is: a domain that was detached is left alone.
        if !is_own {
            self.insist_on_tls(&mut response, visitor, HSTS_ELSEWHERE);
        }
        response
    }

    async fn visit_with_body(&self, site: &Site, visit: &Visit, request: Request<Incoming>) -> Response<Body> {
        let (head, mut body) = request.into_parts();
        let answer = async {
            let awaits_answer = head.headers.contains_key(header::EXPECT);
            let response = self.sites.respond(Request::from_parts(head, &mut body), visit, site).await;
            if !awaits_answer {
                leave_nothing_of(&mut body).await;
            }
            response
        };
        if let Ok(response) = tokio::time::timeout(limits::REQUEST_BODY, answer).await {
            return response.map(Body::Site);
        }
        let mut response = pages::bad_request();
        *response.status_mut() = StatusCode::REQUEST_TIMEOUT;
        closing(response)
    }

    /// 308 to the same address over HTTPS, for hosts under our domains, and for custom domains that lead to a site: whoever
    /// makes up a host is not sent there by us.
    async fn redirect(&self, host: &str, request: &Request<Incoming>) -> Response<Body> {
        match self.addresses.classify(host) {
            HostKind::Unknown => return page(request.method(), pages::unknown_host()),
            HostKind::Site(key @ HostKey::Domain(_)) => match self.routes.site(host, &key).await {
                Ok(Some(_)) => {}
                Ok(None) => return page(request.method(), absent(&key)),
                Err(error) => return unread(host, request.method(), &error),
            },
            HostKind::Site(_) | HostKind::Api | HostKind::Console | HostKind::Gateway => {}
        }
        let port = self.public_port.map(|port| format!(":{port}")).unwrap_or_default();
        let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let Ok(location) = HeaderValue::try_from(format!("https://{host}{port}{path}")) else {
            return closing(pages::bad_request());
        };
        let mut response = Response::new(Body::Site(SiteBody::empty()));
        *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
        response.headers_mut().insert(header::LOCATION, location);
        response
    }
}

/// Reads what a client still sends, within bounds. Over HTTP/2 an answer before the end of its request is followed by a
/// reset, and some clients that read both at once lose the answer.
async fn leave_nothing_of(body: &mut Incoming) {
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > limits::UNWANTED_BODY_BYTES {
            return;
        }
    }
}

fn absent(key: &HostKey) -> Response<SiteBody> {
    match key {
        HostKey::Share(_) => pages::gone(),
        HostKey::Domain(_) => pages::unattached_domain(),
        HostKey::Project(_) | HostKey::Deployment(..) => pages::unknown_host(),
    }
}

fn unread(host: &str, method: &Method, error: &RouteError) -> Response<Body> {
    tracing::warn!(host, %error, "the route is not known");
    page(method, pages::unavailable())
}

fn page(method: &Method, response: Response<SiteBody>) -> Response<Body> {
    pages::seen_by(method, response).map(Body::Site)
}

fn misdirected() -> Response<Body> {
    pages::misdirected().map(Body::Site)
}

/// The answer to what cannot be understood.
pub(crate) fn malformed() -> Response<Body> {
    let mut response = closing(pages::bad_request());
    response.headers_mut().insert(header::SERVER, SERVER);
    response
}

/// An answer to a request after which nothing on the connection can be believed.
fn closing(mut response: Response<SiteBody>) -> Response<Body> {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response.map(Body::Site)
}
