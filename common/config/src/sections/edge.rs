//! `[edge]`: the program that serves sites.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::address;
use crate::size::Size;

/// `[edge]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Edge {
    /// The address of plain HTTP.
    pub listen_http: SocketAddr,
    /// The address of HTTPS.
    pub listen_https: SocketAddr,
    /// The admins, as `host:port`.
    pub admin_upstreams: Vec<String>,
    /// Networks (CIDR) or addresses whose `X-Forwarded-For` is believed, by edge and by admin.
    pub trusted_proxies: Vec<String>,
    /// Networks (CIDR) or addresses of TCP load balancers in front of the edges. Each connection from there, to either listener, must
    /// begin with a header of the PROXY protocol (version 2, or 1), and comes from the client that it names: for bounds, rates, statistics
    /// and what admin is told. Whoever connects from elsewhere cannot send one. Nothing that connects without a header may be in such a
    /// network: admin, which probes domains and reaches the gateway, or a program that watches.
    pub proxy_protocol_from: Vec<String>,
    /// The name of this machine in `admin edges`, logs and metrics; the host name when absent.
    pub name: Option<String>,
    /// The treatment of plain HTTP.
    pub http_mode: HttpMode,
    /// Worker threads; one a core when 0.
    pub threads: usize,
    /// Memory for what an edge remembers and what it is sending: bodies and manifests of sites, routes, certificates, keys, members,
    /// and bytes that visitors have not taken yet, each a fixed share of it. A number of bytes, or `512 MB`. When absent: 40% of the
    /// machine's memory, or of what the control group of the process may have if that is less. At least 128 MB, whatever is said
    /// here. What a process needs beside it (its code, connections, requests) is some 50 MB, and about 20 KB a connection that
    /// idles, 40 KB one at work.
    pub memory: Option<Size>,
    /// The part of `memory` for bodies of sites that are kept, in percent. It, `manifest_cache_percent`, `in_flight_percent` and
    /// `routes_percent` are 5 at least each, and 89 together at most: the rest is for certificates, keys and members.
    pub body_cache_percent: u8,
    /// The part of `memory` for manifests of deployments that are kept, in percent.
    pub manifest_cache_percent: u8,
    /// The part of `memory` for bytes that are being sent, read or hashed, in percent. A quarter of it is for the AI gateway's answers
    /// that are read whole before they are sent, of which one account has a quarter, and half of either may be taken by answers that are
    /// kept for their `Idempotency-Key`; 15 percent of it are for the gateway's requests of
    /// more than 64 KB, of which one account has half, or a single one; one client has a quarter of the rest. Requests beyond it wait for ten
    /// seconds, and one that is larger than all of it is read alone.
    pub in_flight_percent: u8,
    /// The part of `memory` for routes: which site a host is. A route takes some 0.8 KB, so that the default has room for 250,000
    /// hosts in 2 GB.
    pub routes_percent: u8,
    /// Concurrent connections. When 0: as many as the files that the process may open allow, and as fit into `memory` while
    /// they idle. HTTPS keeps a quarter of them; beyond nine tenths, and while the process has more than five quarters of `memory`,
    /// those that idle are closed.
    pub connections: usize,
    /// Concurrent connections of one client, which is an IPv4 address or the /64 of an IPv6 address; 512 when 0. Trusted
    /// proxies have no such bound.
    pub connections_per_client: usize,
    /// Concurrent requests to the API and the console, each with an open file; when 0, an eighth of the files that the process may open,
    /// 1,024 at most. Never more than half of those files. One client has 64 of them.
    pub platform_requests: usize,
    /// Passwords of sites hashed at a time, each with 19 MiB of what is for bytes in flight; one a core when 0, and two at least. One
    /// client has half of them.
    pub password_hashes: usize,
    /// Threads for what blocks: reads of the store's folder, hashes, the journal; 16 a core when 0, at least 32 and at most 128.
    pub blocking_threads: usize,
    /// Bytes a second at which this edge serves all sites of an account together that has used up its plan's bandwidth of the month; 256 KB
    /// when absent, 16 KB at least. Its visitors take turns. There is no overage, and nothing is switched off.
    pub over_plan_bytes_per_second: u64,
    /// Where the gateway's usage and the traffic of sites are kept until Postgres has them. It must outlive the process, so that they
    /// do too. When absent: `spool` in the folder that systemd gives as `STATE_DIRECTORY`, else in the system's temporary folder, which
    /// is for trying svc out.
    pub spool: Option<PathBuf>,
    /// The name of the database that the spool belongs to, when this one is to take it over, as in `store.take_over_from`. Journals of the
    /// former database in it are still passed over.
    pub spool_take_over_from: Option<String>,
    /// Where this edge's metrics are read (`/metrics`), and where load balancers ask whether it lives (`/livez`) and is ready
    /// (`/readyz`); in plain HTTP and without a password: an address that only the operator's Prometheus and balancers reach, such as
    /// `127.0.0.1:9464`. Nothing of it is there when absent, as is usual.
    pub metrics_listen: Option<SocketAddr>,
    /// Seconds for which connections are accepted still after SIGTERM or SIGINT, while `/readyz` is 503: so long that every balancer has
    /// asked by then. They come before `drain_seconds`, and a second signal ends them. An upgrade needs none.
    pub drain_notice_seconds: u32,
    /// Seconds for which completions of the AI gateway go on after SIGTERM or SIGINT. Everything else has five, or as many if that is
    /// less. A service manager must wait some seconds longer before it kills the process (`TimeoutStopSec` of systemd).
    pub drain_seconds: u32,
    /// The Unix socket at which an edge that was started with `--upgrade` takes over the listening sockets of the running one, when that
    /// gets SIGQUIT. Its folder must be the user's own and nobody else's to write to. When absent: `upgrade.sock` beside the
    /// gateway's usage (`spool`). Edges that listen on other addresses need one each.
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

/// The treatment of plain HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HttpMode {
    /// 308 to HTTPS.
    Redirect,
    /// Serves sites as HTTPS does; for machines without certificates. Gated sites still redirect.
    Serve,
}
