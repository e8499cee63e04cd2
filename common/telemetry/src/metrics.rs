//! Metrics: a page in Prometheus's format, on a listener of its own (`edge.metrics_listen`, `admin.metrics_listen`).
//!
//! Labels come from the configuration and from our own code only: models, providers, routes, statuses, jobs. Never from
//! what a client sends, never an account, a host or an address; so that the page stays small and says nothing of people.
//! Without a listener nothing is counted.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};

/// Connections that are served concurrently.
const READERS: usize = 8;
/// Longest a reader may stay.
const READER_STAY: Duration = Duration::from_secs(10);
/// Pause after the system refused to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Interval at which it is tried to listen where another process did.
const LISTEN_EVERY: Duration = Duration::from_millis(250);
/// Interval at which a histogram's single values are summed up: it holds them one by one until then.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// Of what is measured in seconds: from a warm file to a long completion.
const SECONDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];

const FORMAT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// A listener for the page of metrics.
pub struct Exporter {
    address: SocketAddr,
    /// None while another process listens there.
    listener: Option<std::net::TcpListener>,
    handle: PrometheusHandle,
}

impl Exporter {
    /// Listens on `address` and records every metric from now on. To be called once in a program, before anything is
    /// counted.
    pub fn start(address: SocketAddr) -> anyhow::Result<Self> {
        Self::record(address, Some(listen(address)?))
    }

    /// Records every metric from now on, and listens on `address` once no other process does. Takes the place of
    /// [`start`](Self::start).
    pub fn start_when_free(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = match listen(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
            listener => Some(listener?),
        };
        Self::record(address, listener)
    }

    fn record(address: SocketAddr, listener: Option<std::net::TcpListener>) -> anyhow::Result<Self> {
        let builder = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?;
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|_| anyhow::anyhow!("metrics are exported already"))?;
        metrics::describe_counter!("svc_redis_errors_total", "Commands that Redis refused or did not answer.");
        metrics::describe_counter!("svc_postgres_errors_total", "Statements that Postgres refused or did not answer.");
        metrics::describe_gauge!("svc_build_info", "Always 1; its label says which version runs.");
        metrics::gauge!("svc_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1);
        Ok(Self { address, listener, handle })
    }

    /// Serves the page for as long as the future is polled.
    pub async fn run(self) {
        let listener = match self.listener {
            Some(listener) => listener,
            None => listen_when_free(self.address).await,
        };
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "metrics are not exported"),
        };
        let handle = self.handle;
        let answer = async {
            let places = Arc::new(Semaphore::new(READERS));
            while let Ok(place) = places.clone().acquire_owned().await {
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                };
                let handle = handle.clone();
                tokio::spawn(async move {
                    let service = service_fn(|request| {
                        let response = page(&request, &handle);
                        async { Ok::<_, std::convert::Infallible>(response) }
                    });
                    let mut http = http1::Builder::new();
                    let http = http.timer(TokioTimer::new()).header_read_timeout(READER_STAY);
                    let _ = timeout(READER_STAY, http.serve_connection(TokioIo::new(stream), service)).await;
                    drop(place);
                });
            }
        };
        let upkeep = async {
            loop {
                tokio::time::sleep(UPKEEP_EVERY).await;
                handle.run_upkeep();
            }
        };
        tokio::select! {
            () = answer => {}
            () = upkeep => {}
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn listen_when_free(address: SocketAddr) -> std::net::TcpListener {
    loop {
        match listen(address) {
            Ok(listener) => return listener,
            Err(error) => tracing::debug!(%error, "metrics are not exported yet"),
        }
        tokio::time::sleep(LISTEN_EVERY).await;
    }
}

fn page(request: &Request<Incoming>, handle: &PrometheusHandle) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    if request.uri().path() != "/metrics" {
        *response.status_mut() = StatusCode::NOT_FOUND;
    } else if !matches!(*request.method(), Method::GET | Method::HEAD) {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    } else {
        response.headers_mut().insert(header::CONTENT_TYPE, FORMAT);
        *response.body_mut() = handle.render().into();
    }
    response
}

/// Counts a failure of Postgres. `what` is what it was asked for.
pub fn postgres_failed(what: &'static str) {
    metrics::counter!("svc_postgres_errors_total", "what" => what).increment(1);
}

/// Counts a failure of Redis.
pub fn redis_failed() {
    metrics::counter!("svc_redis_errors_total").increment(1);
}
