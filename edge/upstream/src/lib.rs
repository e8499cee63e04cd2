//! The providers: a pool of HTTP/1.1 connections for each, with one request at a time per connection.
//!
//! A connection is polled by the request that waits for its answer, not by a separate task, so an answer's bytes reach
//! the client without a hop between tasks. Idle connections are not polled; whether one is still open is checked when
//! it is taken from the pool. This module does not interpret answers. Start with [`ProviderPool::send`].

mod body_pieces;
mod circuit;
mod connection;
mod gzip;
mod media_type;
mod pace;
mod request_body;
mod response;
mod targets;

use std::{
    pin::pin,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use config::{
    Gateway as Config,
    gateway::KeyHeader,
    models::{ModelProvider, ModelRoute, ProviderAccess},
};
use edge_metrics::{self as metrics, Histogram};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri, header};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use secrecy::ExposeSecret as _;
use tokio::time::{timeout, timeout_at};
use tower::ServiceExt as _;

pub use self::{
    body_pieces::BodyPieces,
    circuit::{CircuitBreaker, ProviderHealth},
    gzip::{GzipDecoder, GzipError},
    media_type::MediaType,
    pace::{PaceError, ProviderPace},
    request_body::UpstreamBody,
    response::{ReadError, UpstreamResponse},
};
use self::{connection::ProviderConnection, request_body::SendingBody, targets::ProviderTargets};

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("svc-gateway/", env!("CARGO_PKG_VERSION")));

/// The headers of Anthropic's format for the key and the format's version.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// Why a provider cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ProviderSetupError {
    /// The provider's address is not valid in a request.
    #[error("the address of the provider {0} cannot be used: {1}")]
    Address(String, http::Error),
    /// The provider's key is not a valid header value.
    #[error("the API key of the provider {0} holds characters that no HTTP header can")]
    Key(String),
    /// TLS cannot be set up.
    #[error("TLS to providers cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// Makes connections over TLS or, for an `http` address, without it.
pub type ProviderConnector = HttpsConnector<HttpConnector>;

/// A provider, with the connections to it and what each request to it has in common.
pub struct ProviderPool {
    /// The provider's name in the configuration, for logs and metrics.
    pub name: Arc<str>,
    /// The name as a header value, if it is a valid one.
    pub name_header: Option<HeaderValue>,
    /// Whether requests are sent to it at all.
    pub circuit: Arc<CircuitBreaker>,
    /// The time from sending a request to the head of its answer or a failure.
    pub answer_seconds: Histogram,
    uri: Uri,
    targets: ProviderTargets,
    headers: HeaderMap,
    anthropics: HeaderMap,
    connector: ProviderConnector,
    /// The time within which the answer to a request must begin, however often it is sent.
    pub first_byte: Duration,
    /// The time limit for a request to wait for its turn; if zero, requests do not wait.
    pub queue: Duration,
    /// The longest pause between two chunks of an answer that has begun.
    chunk_pause: Duration,
    /// Idle connections, each with the time since when it is idle, the most recent last.
    idle: Mutex<Vec<(Instant, ProviderConnection)>>,
}

/// The reason that a provider did not answer a request.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// No connection could be made, even at a second try.
    #[error("cannot connect: {0}")]
    Connect(Box<dyn std::error::Error + Send + Sync>),
    /// A connection was not made within [`limits::PROVIDER_CONNECT`].
    #[error("connecting took too long")]
    ConnectTimeout,
    /// The head of the answer did not arrive by the deadline.
    #[error("the answer did not begin in time")]
    Timeout,
    /// The connection failed before the head of the answer arrived.
    #[error("the connection broke before the answer: {0}")]
    Broken(hyper::Error),
}

impl UpstreamError {
    /// Returns the name of the failure in metrics.
    pub fn metric_label(&self) -> &'static str {
        match self {
            Self::Connect(_) => "no connection",
            Self::ConnectTimeout => "slow connection",
            Self::Timeout => "slow answer",
            Self::Broken(_) => "connection broke",
        }
    }
}

impl ProviderPool {
    /// Creates a pool without connections. Fails if the provider's address or key cannot be used in a request.
    pub fn new(
        provider: &ModelProvider,
        config: &Config,
        connector: ProviderConnector,
    ) -> Result<Self, ProviderSetupError> {
        let unusable = |error: http::Error| ProviderSetupError::Address(provider.name.to_string(), error);
        let targets = ProviderTargets::for_provider(provider).map_err(unusable)?;
        let uri: Uri =
            provider.base_url.as_str().parse().map_err(|error: http::uri::InvalidUri| unusable(error.into()))?;
        let host = uri.authority().map_or("", http::uri::Authority::as_str);
        let host = HeaderValue::from_str(host).map_err(|error| unusable(error.into()))?;

        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host);
        headers.insert(header::USER_AGENT, USER_AGENT);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut anthropics = headers.clone();
        anthropics.insert(ANTHROPIC_VERSION, HeaderValue::from_static("2023-06-01"));
        if let ProviderAccess::Key(key) = &provider.access {
            let secret = |text: &str| {
                let value = HeaderValue::from_str(text);
                let mut value = value.map_err(|_| ProviderSetupError::Key(provider.name.to_string()))?;
                value.set_sensitive(true);
                Ok::<_, ProviderSetupError>(value)
            };
            let bearer = secret(&format!("Bearer {}", key.expose_secret()))?;
            match provider.quirks.messages_key {
                KeyHeader::XApiKey => anthropics.insert(API_KEY, secret(key.expose_secret())?),
                KeyHeader::Bearer => anthropics.insert(header::AUTHORIZATION, bearer.clone()),
            };
            headers.insert(header::AUTHORIZATION, bearer);
        }
        Ok(Self {
            name: provider.name.clone(),
            name_header: HeaderValue::from_str(&provider.name).ok(),
            circuit: Arc::new(CircuitBreaker::new(provider.name.clone())),
            answer_seconds: metrics::upstream_seconds(&provider.name),
            connector,
            uri,
            targets,
            headers,
            anthropics,
            first_byte: Duration::from_secs(config.first_byte_seconds.into()),
            queue: Duration::from_secs(config.queue_seconds.min(config.first_byte_seconds).into()),
            chunk_pause: Duration::from_secs(config.idle_seconds.into()),
            idle: Mutex::default(),
        })
    }

    /// Returns whether `other` reaches the same provider in the same way.
    pub fn is_same_provider(&self, other: &Self) -> bool {
        let Self { name, uri, targets, headers, anthropics, first_byte, queue, chunk_pause, .. } = self;
        (name, uri, targets) == (&other.name, &other.uri, &other.targets)
            && (headers, anthropics) == (&other.headers, &other.anthropics)
            && (*first_byte, *queue, *chunk_pause) == (other.first_byte, other.queue, other.chunk_pause)
    }

    /// Sends a request for a completion, which must begin by `begin_by`, to the path of `route`. `before_sending` is
    /// called right before each time the request is sent.
    ///
    /// The request is sent a second time only if the provider cannot have begun to work on it: connecting failed, or a
    /// pooled connection had closed before any of the request was written.
    pub async fn send(
        &self,
        route: ModelRoute,
        body: UpstreamBody,
        is_stream: bool,
        begin_by: tokio::time::Instant,
        before_sending: impl Fn() + Clone + Send + 'static,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let asking = pin!(self.send_with_retry(route, body, is_stream, begin_by, before_sending));
        match timeout_at(begin_by, asking).await {
            Ok(answered) => answered,
            Err(_) => Err(UpstreamError::Timeout),
        }
    }

    async fn send_with_retry(
        &self,
        route: ModelRoute,
        body: UpstreamBody,
        is_stream: bool,
        begin_by: tokio::time::Instant,
        before_sending: impl Fn() + Clone + Send + 'static,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let answer = |connection, response| UpstreamResponse::new(connection, response, begin_by, self.chunk_pause);
        if let Some(connection) = self.take_idle() {
            match connection.send(self.request(route, body.clone(), is_stream, before_sending.clone())).await {
                Ok((connection, response)) => return Ok(answer(connection, response)),
                Err(error) if connection::is_unsent(&error) && body.is_available() => {}
                Err(error) => return Err(UpstreamError::Broken(error)),
            }
        }
        // Boxed because it is rare: a request's future is moved, and is as large as its largest branch.
        let connection = Box::pin(self.connect()).await?;
        let request = self.request(route, body, is_stream, before_sending);
        let (connection, response) = connection.send(request).await.map_err(UpstreamError::Broken)?;
        Ok(answer(connection, response))
    }

    /// Connects, with one retry.
    async fn connect(&self) -> Result<ProviderConnection, UpstreamError> {
        match self.try_to_connect().await {
            Err(UpstreamError::Connect(_)) => self.try_to_connect().await,
            connected => connected,
        }
    }

    async fn try_to_connect(&self) -> Result<ProviderConnection, UpstreamError> {
        let connecting = async {
            let connected = self.connector.clone().oneshot(self.uri.clone()).await;
            let stream = connected.map_err(|error| {
                if is_timeout(&*error) { UpstreamError::ConnectTimeout } else { UpstreamError::Connect(error) }
            })?;
            ProviderConnection::handshake(stream).await.map_err(|error| UpstreamError::Connect(error.into()))
        };
        timeout(limits::PROVIDER_CONNECT, connecting).await.map_err(|_| UpstreamError::ConnectTimeout)?
    }

    fn request(
        &self,
        route: ModelRoute,
        body: UpstreamBody,
        is_stream: bool,
        before_sending: impl Fn() + Send + 'static,
    ) -> Request<SendingBody> {
        let length = HeaderValue::from(body.len());
        let mut request = Request::new(SendingBody::new(body, before_sending));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.targets.at(route).clone();
        let headers = if route == ModelRoute::Messages { &self.anthropics } else { &self.headers };
        *request.headers_mut() = headers.clone();
        let accept = if is_stream { "text/event-stream" } else { "application/json" };
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
        request.headers_mut().insert(header::CONTENT_LENGTH, length);
        request
    }

    /// Takes the most recently used open connection from the pool.
    fn take_idle(&self) -> Option<ProviderConnection> {
        loop {
            let (since, mut connection) = self.idle().pop()?;
            if since.elapsed() < limits::PROVIDER_IDLE && connection.is_ready() {
                return Some(connection);
            }
        }
    }

    /// Returns a connection whose answer was read to its end to the pool.
    pub fn return_to_pool(&self, mut connection: ProviderConnection) {
        if !connection.is_ready() {
            return;
        }
        let mut idle = self.idle();
        // The oldest come first. Those that have been idle for too long are closed here, as nothing else closes them.
        let expired = idle.iter().take_while(|(since, _)| since.elapsed() >= limits::PROVIDER_IDLE).count();
        let surplus = (idle.len() + 1).saturating_sub(limits::PROVIDER_KEPT);
        let closed: Vec<_> = idle.drain(..expired.max(surplus)).collect();
        idle.push((Instant::now(), connection));
        drop(idle);
        drop(closed);
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, ProviderConnection)>> {
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Returns whether connecting failed by the connector's own timeout, which it divides among a name's addresses.
fn is_timeout(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::TimedOut)
}

/// Creates a connector that trusts the certificates of this machine. If there are none, it can only do without TLS.
pub fn connector() -> Result<ProviderConnector, ProviderSetupError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // Without this, each small piece may wait 40 ms for the acknowledgement of the previous one.
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
