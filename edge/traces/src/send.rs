//! The task that sends spans to the collector in batches, as OTLP JSON over HTTP.

use std::fs;

use bytes::Bytes;
use config::Telemetry;
use domain::Clock;
use edge_metrics as metrics;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::client::conn::http1;
use telemetry::{OutageLine, OutageLog};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use upstream::{ProviderConnector, ProviderSetupError};

use super::{
    CompletionTraces,
    otlp::{self, EndedSpan, SpanResource},
};

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("svc-gateway/", env!("CARGO_PKG_VERSION")));

/// Why traces cannot be sent as configured.
#[derive(Debug, thiserror::Error)]
pub enum TraceSetupError {
    /// The address is not valid in a request.
    #[error("telemetry.traces_url cannot be used: {0}")]
    Address(#[from] http::Error),
    /// The file cannot be read.
    #[error("telemetry.traces_headers_file cannot be read: {0}")]
    File(#[from] std::io::Error),
    /// A line is not a header field. Its text is not repeated, as it may be a key.
    #[error("telemetry.traces_headers_file, line {0}: expected `Name: value`")]
    Header(usize),
    /// TLS cannot be set up.
    #[error("TLS to the collector cannot be set up: {0}")]
    Tls(#[from] ProviderSetupError),
}

/// Why a batch was not accepted.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("cannot connect: {0}")]
    Connect(Box<dyn std::error::Error + Send + Sync>),
    #[error("the connection broke: {0}")]
    Broken(#[from] hyper::Error),
    #[error("it took too long")]
    Timeout,
    #[error("the collector answered {0}")]
    Status(StatusCode),
}

impl SendError {
    /// Returns whether the same batch may be accepted later, according to OTLP.
    fn is_retryable(&self) -> bool {
        match self {
            Self::Status(status) => matches!(status.as_u16(), 429 | 502..=504),
            _ => true,
        }
    }
}

/// Sends spans while it runs.
pub struct TraceTask {
    ended: mpsc::Receiver<EndedSpan>,
    batch: Vec<EndedSpan>,
    uri: Uri,
    headers: HeaderMap,
    connector: ProviderConnector,
    resource: SpanResource,
}

/// Returns the traces of the edge named `edge` on this machine, and the task that sends them, if configured.
pub fn start(
    config: &Telemetry,
    edge: &str,
    machine: &str,
    clock: Clock,
) -> Result<Option<(CompletionTraces, TraceTask)>, TraceSetupError> {
    let Some(url) = &config.traces_url else { return Ok(None) };
    let uri: Uri = url.as_str().parse().map_err(http::Error::from)?;
    let mut headers = match &config.traces_headers_file {
        None => HeaderMap::new(),
        Some(file) => parse_headers(&fs::read_to_string(file)?)?,
    };
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    headers.insert(header::HOST, HeaderValue::from_str(authority).map_err(http::Error::from)?);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, USER_AGENT);
    let (sender, ended) = mpsc::channel(limits::SPANS_QUEUE);
    let traces = CompletionTraces {
        ended: sender,
        percent: config.traces_percent,
        names_accounts: config.traces_account,
        clock,
    };
    let resource = SpanResource { edge: edge.to_owned(), machine: machine.to_owned() };
    let task = TraceTask { ended, batch: Vec::new(), uri, headers, connector: upstream::connector()?, resource };
    Ok(Some((traces, task)))
}

/// Parses a file of header fields. Empty lines and comments (`#`) are ignored.
fn parse_headers(text: &str) -> Result<HeaderMap, TraceSetupError> {
    let mut headers = HeaderMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let field = line.split_once(':').and_then(|(name, value)| {
            let mut value: HeaderValue = value.trim().parse().ok()?;
            value.set_sensitive(true);
            Some((name.trim().parse::<HeaderName>().ok()?, value))
        });
        let (name, value) = field.ok_or(TraceSetupError::Header(number + 1))?;
        headers.append(name, value);
    }
    Ok(headers)
}

impl TraceTask {
    /// Sends spans until `stop` is cancelled, and then those still queued.
    pub async fn run(mut self, stop: CancellationToken) {
        let sending = async {
            while self.fill().await {
                self.send().await;
                self.batch.clear();
            }
        };
        stop.run_until_cancelled(sending).await;
        self.ended.close();
        let rest = async {
            while !self.batch.is_empty() || self.fill().await {
                self.send().await;
                self.batch.clear();
            }
        };
        if timeout(limits::LAST_SPANS_WAIT, rest).await.is_err() {
            metrics::spans_dropped("stop", self.batch.len() + self.ended.len());
        }
    }

    /// Fills the batch until it is full or its first span has waited long enough. Returns false if there are no more.
    async fn fill(&mut self) -> bool {
        if self.batch.is_empty() {
            let Some(first) = self.ended.recv().await else { return false };
            self.batch.push(first);
        }
        let until = Instant::now() + limits::SPANS_HOLD;
        while self.batch.len() < limits::SPANS_BATCH {
            match timeout_at(until, self.ended.recv()).await {
                Ok(Some(span)) => self.batch.push(span),
                Ok(None) | Err(_) => break,
            }
        }
        true
    }

    /// Sends a batch, with retries while the collector is unavailable.
    async fn send(&self) {
        static AWAY: OutageLog = OutageLog::new();
        let body = Bytes::from(otlp::request(&self.batch, &self.resource).to_string());
        let mut pause = limits::SPANS_PAUSE;
        for tried in 1..=limits::SPANS_TRIES {
            let Err(error) = self.post(body.clone()).await else {
                metrics::spans_sent(self.batch.len());
                if let Some(lasted) = AWAY.record_success() {
                    tracing::info!(seconds = lasted.as_secs(), "the collector takes traces again");
                }
                return;
            };
            if tried == limits::SPANS_TRIES || !error.is_retryable() {
                if let Some(OutageLine { left_out, .. }) = AWAY.record_failure() {
                    tracing::warn!(%error, left_out, spans = self.batch.len(), "the collector at telemetry.traces_url does not take traces");
                }
                break;
            }
            sleep(pause).await;
            pause *= 2;
        }
        metrics::spans_dropped("collector", self.batch.len());
    }

    async fn post(&self, body: Bytes) -> Result<(), SendError> {
        let posting = async {
            let stream = self.connector.clone().oneshot(self.uri.clone()).await.map_err(SendError::Connect)?;
            let (mut sender, connection) = http1::handshake::<_, Full<Bytes>>(stream).await?;
            let mut request = Request::new(Full::new(body));
            *request.method_mut() = Method::POST;
            let target = self.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
            *request.uri_mut() = target.parse().unwrap_or_default();
            request.headers_mut().clone_from(&self.headers);
            let answered = async { sender.send_request(request).await };
            // The connection makes progress only while it is polled.
            let response = tokio::select! {
                response = answered => response?,
                ended = connection => return Err(ended.err().map_or(SendError::Timeout, SendError::Broken)),
            };
            let status = response.status();
            if status.is_success() { Ok(()) } else { Err(SendError::Status(status)) }
        };
        timeout(limits::COLLECTOR_WAIT, posting).await.unwrap_or(Err(SendError::Timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_fields_are_read_and_never_repeated() {
        let headers = parse_headers("# of the collector\n\nAuthorization: Bearer x:y\nx-tenant:  7 \n").unwrap();
        assert_eq!(
            (&headers["authorization"], &headers["x-tenant"]),
            (&"Bearer x:y".parse().unwrap(), &"7".parse().unwrap())
        );
        let error = parse_headers("a: b\nsecret-without-colon").unwrap_err().to_string();
        assert!(error.contains("line 2") && !error.contains("secret"), "{error}");
    }
}
