//! The way to admin: the hosts of the API and the console.
//!
//! One HTTP implementation faces the visitor, with one set of limits: hyper. A request for the platform is handed from
//! it, through a pipe in memory, to pingora-proxy, which keeps the connections to the admins, chooses a healthy one and
//! tries another when the first could not be reached.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use pingora::{
    apps::ServerApp as _,
    http::ResponseHeader,
    prelude::{Error, ErrorType, HttpPeer, ProxyHttp, Session},
    proxy::{FailToProxy, HttpProxy, http_proxy},
    server::configuration::ServerConf,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
    time::{interval, timeout},
};

use crate::{
    front::{Body, FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO, Visitor},
    limits,
    sites::{SiteBody, accepts_html, pages},
};

/// Fields that concern one connection only, or would tell admin what a visitor says of itself.
const NOT_HANDED_ON: [HeaderName; 8] = [
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::EXPECT,
    header::FORWARDED,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("x-real-ip"),
];

/// Hands requests on to the admins.
pub struct Platform {
    proxy: Arc<HttpProxy<Admins>>,
    upstreams: Arc<Upstreams>,
    /// Pingora's proxy asks whether the server stops; connections are ended by `listen/`, so never.
    stops: watch::Receiver<bool>,
    _never: watch::Sender<bool>,
}

impl Platform {
    /// A proxy to `admin_upstreams`. Fails when one of them is not an address.
    pub fn new(admin_upstreams: &[String], threads: usize) -> io::Result<Self> {
        let upstreams = Arc::new(Upstreams::resolve(admin_upstreams)?);
        let conf = ServerConf { threads, max_retries: upstreams.list.len(), ..ServerConf::default() };
        let proxy = Arc::new(http_proxy(&Arc::new(conf), Admins { upstreams: upstreams.clone() }));
        let (never, stops) = watch::channel(false);
        Ok(Self { proxy, upstreams, stops, _never: never })
    }

    /// Looks at the admins' health for as long as it is polled.
    pub fn health_watch(&self) -> impl Future<Output = ()> + Send + 'static {
        watch_health(self.upstreams.clone())
    }

    /// Answers `request` with what an admin says to it.
    pub(crate) async fn hand_over(&self, request: Request<Incoming>, host: &str, visitor: Visitor) -> Response<Body> {
        match self.try_hand_over(request, host, visitor).await {
            Ok(mut response) => {
                strip_connection_fields(response.headers_mut());
                response.headers_mut().remove(header::TRANSFER_ENCODING);
                *response.version_mut() = http::Version::default();
                response.map(Body::Handed)
            }
            Err(error) => {
                tracing::warn!(%error, "a request could not be handed to admin");
                pages::bad_gateway().map(Body::Site)
            }
        }
    }

    async fn try_hand_over(
        &self,
        mut request: Request<Incoming>,
        host: &str,
        visitor: Visitor,
    ) -> anyhow::Result<Response<Incoming>> {
        prepare(&mut request, host, visitor)?;
        let (ours, theirs) = tokio::io::duplex(limits::HANDOVER_BYTES);
        let (proxy, stops) = (self.proxy.clone(), self.stops.clone());
        // Both tasks end with the pipe: when the answer is read, or the visitor gone.
        tokio::spawn(async move { proxy.process_new(Box::new(theirs), &stops).await });
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(ours)).await?;
        tokio::spawn(connection);
        Ok(sender.send_request(request).await?)
    }
}

/// Brings the request into the form in which admin gets it.
fn prepare(request: &mut Request<Incoming>, host: &str, visitor: Visitor) -> anyhow::Result<()> {
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

/// The admins, and which of them seem well.
struct Upstreams {
    list: Vec<Upstream>,
    next: AtomicUsize,
}

struct Upstream {
    address: SocketAddr,
    well: AtomicBool,
}

impl Upstreams {
    fn resolve(names: &[String]) -> io::Result<Self> {
        let mut list = Vec::new();
        for name in names {
            let address = name.to_socket_addrs()?.next();
            let address = address.ok_or_else(|| io::Error::other(format!("{name} has no address")))?;
            list.push(Upstream { address, well: AtomicBool::new(true) });
        }
        Ok(Self { list, next: AtomicUsize::new(0) })
    }

    /// The next one that was not tried: one that is well, else any, because health may be wrong.
    fn choose(&self, tried: &[usize]) -> Option<usize> {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let untried =
            || (0..self.list.len()).map(|n| start.wrapping_add(n) % self.list.len()).filter(|at| !tried.contains(at));
        untried().find(|&at| self.list[at].well.load(Ordering::Relaxed)).or_else(|| untried().next())
    }
}

async fn watch_health(upstreams: Arc<Upstreams>) {
    let mut every = interval(limits::HEALTH_EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        for upstream in &upstreams.list {
            let well = matches!(timeout(limits::HEALTH_WAIT, is_well(upstream.address)).await, Ok(Ok(true)));
            if upstream.well.swap(well, Ordering::Relaxed) != well {
                let state = if well { "well" } else { "unwell" };
                tracing::info!(admin = %upstream.address, "admin is {state}");
            }
        }
    }
}

async fn is_well(address: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: health\r\nConnection: close\r\n\r\n").await?;
    let mut status = [0; b"HTTP/1.1 200".len()];
    stream.read_exact(&mut status).await?;
    Ok(status.ends_with(b" 200"))
}

/// What pingora-proxy asks of us.
struct Admins {
    upstreams: Arc<Upstreams>,
}

#[async_trait]
impl ProxyHttp for Admins {
    /// The upstreams that were tried for the request.
    type CTX = Vec<usize>;

    fn new_ctx(&self) -> Self::CTX {
        Vec::new()
    }

    async fn request_filter(&self, session: &mut Session, _: &mut Self::CTX) -> pingora::Result<bool> {
        let client = session.as_downstream_mut();
        client.set_read_timeout(Some(limits::CLIENT_STALL));
        client.set_write_timeout(Some(limits::CLIENT_STALL));
        client.set_keepalive(None);
        Ok(false)
    }

    async fn upstream_peer(&self, _: &mut Session, tried: &mut Self::CTX) -> pingora::Result<Box<HttpPeer>> {
        let at = self.upstreams.choose(tried).ok_or_else(|| Error::new(ErrorType::ConnectNoRoute))?;
        tried.push(at);
        let mut peer = HttpPeer::new(self.upstreams.list[at].address, false, String::new());
        peer.options.connection_timeout = Some(limits::ADMIN_CONNECT);
        peer.options.total_connection_timeout = Some(limits::ADMIN_CONNECT);
        peer.options.read_timeout = Some(limits::ADMIN_READ);
        peer.options.write_timeout = Some(limits::ADMIN_WRITE);
        peer.options.idle_timeout = Some(limits::ADMIN_IDLE);
        Ok(Box::new(peer))
    }

    fn fail_to_connect(
        &self,
        _: &mut Session,
        _: &HttpPeer,
        tried: &mut Self::CTX,
        mut error: Box<Error>,
    ) -> Box<Error> {
        if let Some(&at) = tried.last() {
            self.upstreams.list[at].well.store(false, Ordering::Relaxed);
        }
        // Nothing was sent yet, so trying another is always safe.
        error.set_retry(tried.len() < self.upstreams.list.len());
        error
    }

    /// One failure, one line: it is said in `fail_to_proxy`.
    fn suppress_error_log(&self, _: &Session, _: &Self::CTX, _: &Error) -> bool {
        true
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, _: &mut Self::CTX) -> FailToProxy {
        if session.as_downstream().response_written().is_none() {
            tracing::warn!(%error, "no admin answered");
            let wants_page = accepts_html(&session.req_header().headers);
            // The client is our own pipe: when it is gone, nobody misses the answer.
            let _ = write_bad_gateway(session, wants_page).await;
        }
        FailToProxy { error_code: StatusCode::BAD_GATEWAY.as_u16(), can_reuse_downstream: false }
    }
}

async fn write_bad_gateway(session: &mut Session, wants_page: bool) -> pingora::Result<()> {
    let (kind, body) = if wants_page {
        ("text/html; charset=utf-8", bad_gateway_page().await)
    } else {
        let text =
            r#"{"error":{"code":"bad_gateway","message":"The control plane does not answer; try again in a moment."}}"#;
        ("application/json", Bytes::from_static(text.as_bytes()))
    };
    let mut head = ResponseHeader::build(StatusCode::BAD_GATEWAY, Some(4))?;
    head.insert_header(header::CONTENT_TYPE, kind)?;
    head.insert_header(header::CONTENT_LENGTH, body.len())?;
    head.insert_header(header::CACHE_CONTROL, "no-store")?;
    session.write_response_header(Box::new(head), false).await?;
    session.write_response_body(Some(body), true).await
}

async fn bad_gateway_page() -> Bytes {
    let body: SiteBody = pages::bad_gateway().into_body();
    http_body_util::BodyExt::collect(body).await.map(http_body_util::Collected::to_bytes).unwrap_or_default()
}
