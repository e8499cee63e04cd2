//! The way to admin: the hosts of the API and the console.
//!
//! One HTTP implementation faces the visitor, with one set of limits: hyper. A request for the platform is handed from
//! it, through a pipe in memory, to pingora-proxy, which keeps the connections to the admins, chooses a healthy one and
//! tries another when the first could not be reached. [`proxy`] is what pingora-proxy asks of us, [`upstreams`] the admins.
//! Start with [`Platform::hand_over`].

mod proxy;
mod upstreams;

use std::{io, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use pingora::{
    apps::ServerApp as _,
    proxy::{HttpProxy, http_proxy},
    server::configuration::ServerConf,
};
use tokio::sync::watch;

use self::{
    proxy::Admins,
    upstreams::{Upstreams, watch_health},
};
use crate::{
    http::{BodyError, FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO, Visitor},
    limits,
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
        let conf = ServerConf { threads, max_retries: upstreams.len(), ..ServerConf::default() };
        let proxy = Arc::new(http_proxy(&Arc::new(conf), Admins::new(upstreams.clone())));
        let (never, stops) = watch::channel(false);
        Ok(Self { proxy, upstreams, stops, _never: never })
    }

    /// Looks at the admins' health for as long as it is polled.
    pub fn health_watch(&self) -> impl Future<Output = ()> + Send + 'static {
        watch_health(self.upstreams.clone())
    }

    /// Answers `request` with what an admin says to it; fails when it could not even be handed on.
    pub(crate) async fn hand_over<B>(
        &self,
        mut request: Request<B>,
        host: &str,
        visitor: Visitor,
    ) -> anyhow::Result<Response<Incoming>>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + 'static,
    {
        prepare(&mut request, host, visitor)?;
        let (ours, theirs) = tokio::io::duplex(limits::HANDOVER_BYTES);
        let (proxy, stops) = (self.proxy.clone(), self.stops.clone());
        // Both tasks end with the pipe: when the answer is read, or the visitor gone.
        tokio::spawn(async move { proxy.process_new(Box::new(theirs), &stops).await });
        let mut client = hyper::client::conn::http1::Builder::new();
        client.max_buf_size(limits::HANDOVER_BYTES);
        let (mut sender, connection) = client.handshake(TokioIo::new(ours)).await?;
        tokio::spawn(connection);
        let mut response = sender.send_request(request).await?;
        strip_connection_fields(response.headers_mut());
        response.headers_mut().remove(header::TRANSFER_ENCODING);
        *response.version_mut() = http::Version::default();
        Ok(response)
    }
}

/// Brings the request into the form in which admin gets it.
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
