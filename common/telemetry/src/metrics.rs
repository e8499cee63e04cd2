//! Metrics: a page in Prometheus's format on a separate listener (`edge.metrics_listen`, `admin.metrics_listen`), which
//! also answers load balancers ([`crate::health`]).
//!
//! Labels come only from the configuration and from our own code: models, providers, routes, statuses, jobs. They never
//! come from client input and never name an account, a site or a visitor's address, so that the page stays small and
//! reveals nothing about people. Without a listener nothing is counted.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};

use crate::{BuildInfo, health::Health, process::ProcessStats};

/// The limit of concurrent connections. More than Prometheus needs, so that slow readers leave room for others.
const READERS: usize = 64;
const READER_STAY: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The interval of attempts to listen while another process does.
const LISTEN_EVERY: Duration = Duration::from_millis(250);
/// The interval at which a histogram's values are summed up; until then it holds each of them.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// Histogram buckets in seconds: from a cached file to a long completion.
const SECONDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];

const FORMAT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Writes metrics to the page at each request: see [`crate::text`].
pub type PageSection = Box<dyn Fn(&mut String) + Send + Sync>;

/// A listener for the page of metrics.
pub struct MetricsExporter {
    address: SocketAddr,
    /// `None` while another process listens there.
    listener: Option<std::net::TcpListener>,
    page: MetricsPage,
}

struct MetricsPage {
    recorded: PrometheusHandle,
    sections: Vec<PageSection>,
    health: Health,
}

impl MetricsExporter {
    /// Listens on `address` and records every metric from now on. Call it once, before anything is counted.
    pub fn start(address: SocketAddr, build: BuildInfo, health: Health) -> anyhow::Result<Self> {
        Self::record(address, Some(listen(address)?), build, health)
    }

    /// Like [`start`](Self::start), but listens on `address` only once no other process does.
    pub fn start_when_free(address: SocketAddr, build: BuildInfo, health: Health) -> anyhow::Result<Self> {
        let listener = match listen(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
            listener => Some(listener?),
        };
        Self::record(address, listener, build, health)
    }

    fn record(
        address: SocketAddr,
        listener: Option<std::net::TcpListener>,
        build: BuildInfo,
        health: Health,
    ) -> anyhow::Result<Self> {
        let builder = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?;
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|_| anyhow::anyhow!("metrics are exported already"))?;
        metrics::describe_counter!("svc_redis_errors_total", "Commands that Redis refused or did not answer.");
        metrics::describe_counter!("svc_postgres_errors_total", "Statements that Postgres refused or did not answer.");
        metrics::describe_counter!(
            crate::reload::RELOADS,
            "Configurations that were read again at SIGHUP, by whether they were taken over."
        );
        metrics::describe_gauge!(
            "svc_build_info",
            "Always 1; its labels say which version runs, and the commit that it was built from."
        );
        metrics::gauge!("svc_build_info", "version" => build.version, "commit" => build.commit).set(1);
        describe_dependencies();
        Ok(Self { address, listener, page: MetricsPage { recorded: handle, sections: Vec::new(), health } })
    }

    /// Adds a section that is written at each request of the page.
    pub fn add_section(&mut self, section: PageSection) {
        self.page.sections.push(section);
    }

    /// Serves the page while the future is polled, before [`run`](Self::run), so that a program that waits at startup
    /// shows that it is alive and what it lacks. Serves one reader at a time, and none while another process listens.
    pub async fn run_at_start(&self) {
        let listener = self.listener.as_ref().and_then(|listener| listener.try_clone().ok());
        let Some(listener) = listener.and_then(|listener| TcpListener::from_std(listener).ok()) else {
            return std::future::pending().await;
        };
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let service = service_fn(|request| {
                let response = self.page.answer(&request);
                async { Ok::<_, std::convert::Infallible>(response) }
            });
            let mut http = http1::Builder::new();
            let http = http.timer(TokioTimer::new()).header_read_timeout(READER_STAY).keep_alive(false);
            let _ = timeout(READER_STAY, http.serve_connection(TokioIo::new(stream), service)).await;
        }
    }

    /// Serves the page while the future is polled.
    pub async fn run(self) {
        let listener = match self.listener {
            Some(listener) => listener,
            None => listen_when_free(self.address).await,
        };
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "metrics are not exported"),
        };
        let page = Arc::new(self.page);
        let answer = async {
            let places = Arc::new(Semaphore::new(READERS));
            while let Ok(place) = places.clone().acquire_owned().await {
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                };
                let page = page.clone();
                tokio::spawn(async move {
                    let service = service_fn(|request| {
                        let response = page.answer(&request);
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
                page.recorded.run_upkeep();
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

impl MetricsPage {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let mut response = Response::new(Full::default());
        if !matches!(path, "/metrics" | "/livez" | "/readyz") {
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let (status, format, body) = match path {
            "/livez" => (StatusCode::OK, JSON, r#"{"status":"alive"}"#.to_owned()),
            "/readyz" => {
                let (status, body) = self.health.answer();
                (status, JSON, body)
            }
            _ => (StatusCode::OK, FORMAT, self.metrics()),
        };
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, format);
        *response.body_mut() = body.into();
        response
    }

    fn metrics(&self) -> String {
        let mut text = self.recorded.render();
        ProcessStats::read().write(&mut text);
        for section in &self.sections {
            section(&mut text);
        }
        text
    }
}

fn describe_dependencies() {
    metrics::describe_gauge!(
        "svc_dependency_up",
        "Whether Postgres, its replica, Redis and the store answered this program when it last looked, by name."
    );
    metrics::describe_histogram!(
        "svc_dependency_seconds",
        "From asking a dependency for a sign of life to its answer; of Postgres with the wait for a connection of the pool."
    );
    metrics::describe_gauge!(
        "svc_postgres_connections",
        "Connections of this program to Postgres, by pool and state: `used` or `idle`."
    );
    metrics::describe_gauge!("svc_postgres_connections_max", "Connections that a pool may have.");
    metrics::describe_gauge!(
        "svc_disk_free_bytes",
        "Bytes that this program may still write, by folder: `spool` or `store`."
    );
    metrics::describe_gauge!("svc_disk_total_bytes", "Bytes that the disk of a folder holds.");
    metrics::describe_histogram!(
        "svc_store_seconds",
        "Time that an operation of the store of packs took, by operation."
    );
    metrics::describe_counter!(
        "svc_store_errors_total",
        "Operations of the store of packs that failed, by operation and reason: a pack that is `missing` or `damaged`, or a store that is \
         `unavailable`."
    );
}

/// Records whether a dependency responded, and after how long.
pub fn dependency(name: &'static str, answered: Option<Duration>) {
    metrics::gauge!("svc_dependency_up", "name" => name).set(if answered.is_some() { 1.0 } else { 0.0 });
    if let Some(took) = answered {
        metrics::histogram!("svc_dependency_seconds", "name" => name).record(took);
    }
}

/// Records the connections of a pool.
#[expect(clippy::cast_precision_loss, reason = "there are fewer connections")]
pub fn postgres_pool(pool: &'static str, open: usize, idle: usize, most: usize) {
    for (state, count) in [("used", open.saturating_sub(idle)), ("idle", idle)] {
        metrics::gauge!("svc_postgres_connections", "pool" => pool, "state" => state).set(count as f64);
    }
    metrics::gauge!("svc_postgres_connections_max", "pool" => pool).set(most as f64);
}

/// Records the free space of a folder's disk.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub fn disk(folder: &'static str, free: u64, total: u64) {
    metrics::gauge!("svc_disk_free_bytes", "folder" => folder).set(free as f64);
    metrics::gauge!("svc_disk_total_bytes", "folder" => folder).set(total as f64);
}

/// Records an operation of the pack store, with the reason if it failed.
pub fn store_operation(operation: &'static str, took: Duration, failure: Option<&'static str>) {
    metrics::histogram!("svc_store_seconds", "operation" => operation).record(took);
    if let Some(why) = failure {
        metrics::counter!("svc_store_errors_total", "operation" => operation, "why" => why).increment(1);
    }
}

/// Counts a failure of Postgres. `what` is the attempted operation.
pub fn postgres_failed(what: &'static str) {
    metrics::counter!("svc_postgres_errors_total", "what" => what).increment(1);
}

/// Counts a failure of Redis.
pub fn redis_failed() {
    metrics::counter!("svc_redis_errors_total").increment(1);
}
