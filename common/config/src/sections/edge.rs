//! `[edge]`: the program that serves sites.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::address;
use crate::size::ByteSize;

/// `[edge]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Edge {
    /// The address for plain HTTP.
    pub listen_http: SocketAddr,
    /// The address for HTTPS.
    pub listen_https: SocketAddr,
    /// The admin servers, as `host:port`.
    pub admin_upstreams: Vec<String>,
    /// Networks (CIDR) or addresses whose `X-Forwarded-For` is trusted by edges and admin.
    pub trusted_proxies: Vec<String>,
    /// Networks (CIDR) or addresses of TCP load balancers in front of the edges. Each connection from there, to either
    /// listener, must begin with a PROXY protocol header (version 2 or 1). The address in the header counts as the
    /// client for limits, rates, statistics and what admin receives. Connections from elsewhere cannot send the header.
    /// These networks must not contain anything that connects without a header, such as admin, which probes domains and
    /// reaches the gateway, or a monitoring program.
    pub proxy_protocol_from: Vec<String>,
    /// The name of this machine in `admin edges`, logs and metrics; the host name when absent.
    pub name: Option<String>,
    /// How plain HTTP requests are handled: `redirect` or `serve`.
    pub http_mode: HttpMode,
    /// The number of worker threads; one per core when 0.
    pub threads: usize,
    /// Memory for an edge's caches and for data in flight: bodies and manifests of sites, routes, certificates, keys,
    /// members, and bytes that visitors have not yet received, each with a fixed share. A number of bytes, or `512 MB`.
    /// When absent: 40% of the machine's memory, or of the process's control group limit if that is lower. At least 128
    /// MB, even if configured lower. In addition, the process needs about 50 MB for its code, connections and requests,
    /// and about 20 KB for each idle connection and 40 KB for each active one.
    pub memory: Option<ByteSize>,
    /// The percentage of `memory` for cached site bodies. This key, `manifest_cache_percent`, `in_flight_percent` and
    /// `routes_percent` must be at least 5 each and at most 89 together; certificates, keys and members have the rest.
    pub body_cache_percent: u8,
    /// The percentage of `memory` for cached deployment manifests.
    pub manifest_cache_percent: u8,
    /// The percentage of `memory` for bytes that are being sent, read or hashed. A quarter of it is for AI gateway
    /// responses that are buffered before they are sent; one account may use a quarter of that, and responses kept for
    /// their `Idempotency-Key` may use half of either. 15 percent of it is for gateway requests over 64 KB; one account
    /// may use half of that, or a single request. One client may use a quarter of the rest. Requests beyond these
    /// shares wait up to ten seconds, and a request that is larger than the whole share is read alone.
    pub in_flight_percent: u8,
    /// The percentage of `memory` for routes, which map hosts to sites. A route takes about 0.8 KB, so the default has
    /// room for 250,000 hosts in 2 GB.
    pub routes_percent: u8,
    /// The maximum number of concurrent connections. When 0: the number that the process's open file limit allows and
    /// that fits into `memory` while idle. A quarter is reserved for HTTPS. Idle connections are closed above nine
    /// tenths of the maximum, and while the process uses more than 125% of `memory`.
    pub connections: usize,
    /// The maximum number of concurrent connections from one client (an IPv4 address or an IPv6 /64); 512 when 0.
    /// Trusted proxies are exempt.
    pub connections_per_client: usize,
    /// The maximum number of concurrent requests to the API and the console, each with an open file; when 0, an eighth
    /// of the files that the process may open, and at most 1,024. Never more than half of those files. One client may
    /// use 64 of them.
    pub platform_requests: usize,
    /// The maximum number of site passwords that are hashed concurrently, each with 19 MiB of the memory for bytes in
    /// flight; one per core when 0, and at least two. One client may use half of them.
    pub password_hashes: usize,
    /// The number of threads for blocking work, such as reads from the store's folder, hashes and the journal; when 0,
    /// 16 per core, at least 32 and at most 128.
    pub blocking_threads: usize,
    /// The rate, in bytes per second, at which this edge serves all sites together of an account that has used up its
    /// plan's bandwidth for the month; 256 KB when absent, and at least 16 KB. The account's visitors take turns. There
    /// is no overage charge, and nothing is switched off.
    pub over_plan_bytes_per_second: u64,
    /// The folder where gateway usage and site traffic are kept until Postgres has stored them. It must outlive the
    /// process, or unsent records are lost. When absent: `spool` in the folder that systemd provides as
    /// `STATE_DIRECTORY`, else in the system's temporary folder, which is for trying svc out.
    pub spool: Option<PathBuf>,
    /// The name of the database that owns the spool, when this database is to take it over, as in
    /// `store.take_over_from`. The former database's journals in it are still skipped.
    pub spool_take_over_from: Option<String>,
    /// The address for this edge's metrics (`/metrics`) and the probes of load balancers for liveness (`/livez`) and
    /// readiness (`/readyz`). It is plain HTTP without a password, so choose an address that only the operator's
    /// Prometheus and load balancers can reach, such as `127.0.0.1:9464`. None of these are served when absent, as is
    /// usual.
    pub metrics_listen: Option<SocketAddr>,
    /// Seconds for which new connections are still accepted after SIGTERM or SIGINT while `/readyz` returns 503; choose
    /// it so that every load balancer has polled by then. These seconds precede `drain_seconds`, and a second signal
    /// ends them. An upgrade does not need them.
    pub drain_notice_seconds: u32,
    /// Seconds for which AI gateway completions may continue after SIGTERM or SIGINT. Everything else has five seconds,
    /// or this value if it is lower. A service manager must wait some seconds longer before it kills the process
    /// (systemd's `TimeoutStopSec`).
    pub drain_seconds: u32,
    /// The Unix socket through which an edge started with `--upgrade` takes over the listening sockets of the running
    /// one when that receives SIGQUIT. Its folder must belong to the user, and nobody else may write to it. When
    /// absent: `upgrade.sock` next to the gateway's usage (`spool`). Edges that listen on different addresses need one
    /// each.
    pub upgrade_socket: Option<PathBuf>,
}

impl Default for Edge {
    fn default() -> Self {
        Self {
            listen_http: address("127.0.0.1:8080"),
            listen_https: address("127.0.0.1:8443"),
            admin_upstreams: vec!["127.0.0.1:8081".into()],
            trusted_proxies: Vec::new(),
            proxy_protocol_from: Vec::new(),
            name: None,
            http_mode: HttpMode::Redirect,
            threads: 0,
            memory: None,
            body_cache_percent: 30,
            manifest_cache_percent: 25,
            in_flight_percent: 25,
            routes_percent: 9,
            connections: 0,
            connections_per_client: 0,
            platform_requests: 0,
            password_hashes: 0,
            blocking_threads: 0,
            over_plan_bytes_per_second: 256 * 1024,
            spool: None,
            spool_take_over_from: None,
            metrics_listen: None,
            drain_notice_seconds: 0,
            drain_seconds: 50,
            upgrade_socket: None,
        }
    }
}

/// How plain HTTP requests are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HttpMode {
    /// Redirects to HTTPS with 308.
    Redirect,
    /// Serves sites as over HTTPS, for machines without certificates. Gated sites still redirect.
    Serve,
}
