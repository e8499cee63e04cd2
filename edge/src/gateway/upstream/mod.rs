//! The way to a provider: connections that are kept, and one request and its answer on each at a time.
//!
//! A connection is polled by whoever waits for its answer, not by a task of its own: the bytes of an answer reach the
//! client without a hop between tasks. While it idles nobody polls it; whether it still stands is looked at when it is
//! taken up again.

mod answer;
mod line;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use config::{
    Gateway as Config,
    models::{Access, Provider},
};
use http::{HeaderMap, HeaderValue, Request, Uri, header};
use http_body_util::Full;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use secrecy::ExposeSecret as _;
use tokio::time::timeout;
use tower::ServiceExt as _;

pub(super) use self::answer::{Answer, Broken};
use self::line::Line;
use crate::limits;

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("svc-gateway/", env!("CARGO_PKG_VERSION")));

/// A provider that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// Its address makes no request.
    #[error("the address of the provider {0} cannot be used: {1}")]
    Address(String, http::Error),
    /// Its key makes no header.
    #[error("the API key of the provider {0} holds characters that no HTTP header can")]
    Key(String),
    /// TLS cannot be set up.
    #[error("TLS to providers cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

pub(super) type Connector = HttpsConnector<HttpConnector>;

/// A provider.
pub(super) struct Upstream {
    /// As the configuration calls it, for logs.
    pub(super) name: String,
    uri: Uri,
    /// What is asked for, without the origin.
    target: Uri,
    headers: HeaderMap,
    connector: Connector,
    first_byte: Duration,
    idle_after: Duration,
    /// The newest last.
    idle: Mutex<Vec<(Instant, Line)>>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    #[error("cannot connect: {0}")]
    Connect(Box<dyn std::error::Error + Send + Sync>),
    #[error("connecting took too long")]
    SlowConnect,
    #[error("the answer did not begin in time")]
    Slow,
    #[error("the connection broke before the answer: {0}")]
    Broken(hyper::Error),
}

impl NoAnswer {
    /// What metrics call it.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Connect(_) => "no connection",
            Self::SlowConnect => "slow connection",
            Self::Slow => "slow answer",
            Self::Broken(_) => "connection broke",
        }
    }
}

impl Upstream {
    pub(super) fn new(provider: &Provider, config: &Config, connector: Connector) -> Result<Self, UpstreamError> {
        let unusable = |error: http::Error| UpstreamError::Address(provider.name.clone(), error);
        let url = format!("{}/chat/completions", provider.base_url.as_str().trim_end_matches('/'));
        let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| unusable(error.into()))?;
        let target = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let target = target.parse().map_err(|error: http::uri::InvalidUri| unusable(error.into()))?;
        let host = uri.authority().map_or("", http::uri::Authority::as_str);
        let host = HeaderValue::from_str(host).map_err(|error| unusable(error.into()))?;

        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host);
        headers.insert(header::USER_AGENT, USER_AGENT);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Access::Key(key) = &provider.access {
            let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
                .map_err(|_| UpstreamError::Key(provider.name.clone()))?;
            bearer.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, bearer);
        }
        Ok(Self {
            name: provider.name.clone(),
            connector,
            uri,
            target,
            headers,
            first_byte: Duration::from_secs(config.first_byte_seconds.into()),
            idle_after: Duration::from_secs(config.idle_seconds.into()),
            idle: Mutex::default(),
        })
    }

    /// Asks for a completion. Until the first byte of an answer it is asked a second time when that is safe: when it
    /// could not be connected to, or when it closed a connection that we had kept.
    pub(super) async fn ask(&self, body: Bytes, is_stream: bool) -> Result<Answer, NoAnswer> {
        match timeout(self.first_byte, self.ask_twice(body, is_stream)).await {
            Ok(answered) => answered,
            Err(_) => Err(NoAnswer::Slow),
        }
    }

    async fn ask_twice(&self, body: Bytes, is_stream: bool) -> Result<Answer, NoAnswer> {
        if let Some(line) = self.kept() {
            match line.ask(self.request(body.clone(), is_stream)).await {
                Ok((line, response)) => return Ok(Answer::new(line, response, self.idle_after)),
                Err(error) if line::closed_unanswered(&error) => {}
                Err(error) => return Err(NoAnswer::Broken(error)),
            }
        }
        let line = match self.connect().await {
            Err(NoAnswer::Connect(_)) => self.connect().await?,
            connected => connected?,
        };
        let (line, response) = line.ask(self.request(body, is_stream)).await.map_err(NoAnswer::Broken)?;
        Ok(Answer::new(line, response, self.idle_after))
    }

    async fn connect(&self) -> Result<Line, NoAnswer> {
        let connecting = async {
            let connected = self.connector.clone().oneshot(self.uri.clone()).await;
            let stream = connected
                .map_err(|error| if is_timeout(&*error) { NoAnswer::SlowConnect } else { NoAnswer::Connect(error) })?;
            Line::over(stream).await.map_err(|error| NoAnswer::Connect(error.into()))
        };
        timeout(limits::PROVIDER_CONNECT, connecting).await.map_err(|_| NoAnswer::SlowConnect)?
    }

    fn request(&self, body: Bytes, is_stream: bool) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = self.headers.clone();
        let accept = if is_stream { "text/event-stream" } else { "application/json" };
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
        request
    }

    /// A kept connection that stands, the latest used first.
    fn kept(&self) -> Option<Line> {
        loop {
            let (since, mut line) = self.idle().pop()?;
            if since.elapsed() < limits::PROVIDER_IDLE && line.stands() {
                return Some(line);
            }
        }
    }

    /// Keeps a connection whose answer was read to its end.
    pub(super) fn keep(&self, mut line: Line) {
        if !line.stands() {
            return;
        }
        let mut idle = self.idle();
        // The oldest stand first: those that have idled too long are closed here, as nobody looks at them otherwise.
        let expired = idle.iter().take_while(|(since, _)| since.elapsed() >= limits::PROVIDER_IDLE).count();
        let surplus = (idle.len() + 1).saturating_sub(limits::PROVIDER_KEPT);
        let closed: Vec<_> = idle.drain(..expired.max(surplus)).collect();
        idle.push((Instant::now(), line));
        drop(idle);
        drop(closed);
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, Line)>> {
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Whether the connector's own patience, which it divides among a name's addresses, came to its end before ours.
fn is_timeout(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::TimedOut)
}

/// What connects to every provider.
pub(super) fn connector() -> Result<Connector, UpstreamError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // Small pieces leave at once; without it each may wait 40 ms for the acknowledgement of the one before.
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(limits::PROVIDER_CONNECT));
    tcp.set_keepalive(Some(limits::PROVIDER_KEEPALIVE));
    let builder = || {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
    };
    let tls = match builder()?.with_native_roots() {
        Ok(tls) => tls,
        Err(error) => {
            tracing::warn!(%error, "this machine trusts no certificates: providers can be reached over http:// only");
            builder()?.with_root_certificates(rustls::RootCertStore::empty())
        }
    };
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls.with_no_client_auth());
    Ok(builder.https_or_http().enable_http1().wrap_connector(tcp))
}
