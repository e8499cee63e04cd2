//! The sections and their keys.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};
use url::Url;

use crate::domain::plans::Plans;

#[expect(clippy::expect_used, reason = "only constants are parsed")]
pub(super) fn url(text: &str) -> Url {
    text.parse().expect("a constant URL")
}

#[expect(clippy::expect_used, reason = "only constants below are parsed")]
fn address(text: &str) -> SocketAddr {
    text.parse().expect("a constant address")
}

/// `[site]`: domains and public addresses.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Site {
    /// Projects are its subdomains.
    pub site_domain: String,
    /// Shares are its subdomains.
    pub share_domain: String,
    /// The control plane's address. Its port is the port of every public URL.
    pub base_url: Url,
    /// The AI gateway's address, without `/v1`.
    pub ai_url: Url,
    /// The console's address.
    pub console_url: Url,
    /// What custom domains point their CNAME at.
    pub dns_target: String,
}

impl Default for Site {
    fn default() -> Self {
        Self {
            site_domain: "svc.localhost".into(),
            share_domain: "share.localhost".into(),
            base_url: url("https://api.svc.localhost:8443"),
            ai_url: url("https://ai.svc.localhost:8443"),
            console_url: url("https://app.svc.localhost:8443"),
            dns_target: "edge.svc.localhost".into(),
        }
    }
}

/// `[postgres]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Postgres {
    /// `postgres://user:password@host:port/database`.
    pub url: String,
    /// Connections of one process, at most.
    pub max_connections: u32,
    /// A read replica for the edges' look-ups; the primary when absent.
    pub replica_url: Option<String>,
}

impl Default for Postgres {
    fn default() -> Self {
        Self { url: "postgres://localhost/svc".into(), max_connections: 16, replica_url: None }
    }
}

/// `[redis]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Redis {
    /// `redis://host:port`, `rediss://…`, `redis+cluster://host:port,host:port` (`rediss+cluster://…`), or, on the same
    /// machine and quickest, `redis+unix:///path/of/the/socket`.
    pub url: String,
}

impl Default for Redis {
    fn default() -> Self {
        Self { url: "redis://127.0.0.1:6379".into() }
    }
}

/// `[store]`: where deployment packs are kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Store {
    /// `file:///folder` or `s3://bucket/prefix`.
    pub url: Url,
    /// The S3 server's address; AWS when absent.
    pub endpoint: Option<String>,
    /// The S3 region.
    pub region: Option<String>,
    /// The S3 access key.
    pub access_key: Option<String>,
    /// The S3 secret key.
    pub secret_key: Option<String>,
}

impl Default for Store {
    fn default() -> Self {
        Self { url: url("file:///var/lib/svc/store"), endpoint: None, region: None, access_key: None, secret_key: None }
    }
}

/// `[edge]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Edge {
    /// Where plain HTTP is accepted.
    pub listen_http: SocketAddr,
    /// Where HTTPS is accepted.
    pub listen_https: SocketAddr,
    /// The admins, as `host:port`.
    pub admin_upstreams: Vec<String>,
    /// Networks (CIDR) or addresses whose `X-Forwarded-For` is believed, by edge and by admin.
    pub trusted_proxies: Vec<String>,
    /// What plain HTTP does.
    pub http_mode: HttpMode,
    /// Worker threads; one a core when 0.
    pub threads: usize,
    /// Where the gateway's usage is kept until Postgres has it. It must outlive the process, so that usage does too. When
    /// absent: `spool` in the folder that systemd gives as `STATE_DIRECTORY`, else in the system's temporary folder, which
    /// is for trying svc out.
    pub spool: Option<PathBuf>,
    /// Where this edge's metrics are read, in plain HTTP and without a password: an address that only the operator's
    /// Prometheus reaches, such as `127.0.0.1:9464`. Nothing is exported when absent, as is usual.
    pub metrics_listen: Option<SocketAddr>,
}

impl Default for Edge {
    fn default() -> Self {
        Self {
            listen_http: address("127.0.0.1:8080"),
            listen_https: address("127.0.0.1:8443"),
            admin_upstreams: vec!["127.0.0.1:8081".into()],
            trusted_proxies: Vec::new(),
            http_mode: HttpMode::Redirect,
            threads: 0,
            spool: None,
            metrics_listen: None,
        }
    }
}

/// What plain HTTP does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HttpMode {
    /// 308 to HTTPS.
    Redirect,
    /// Serves sites as HTTPS does; for machines without certificates. Gated sites still redirect.
    Serve,
}

/// `[admin]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Admin {
    /// Where the control plane is accepted, in plain HTTP: for the edges, not for the internet.
    pub listen: SocketAddr,
    /// Where uploads are kept while they are received, 100 MB each; the system's temporary folder when absent.
    pub spool: Option<PathBuf>,
    /// Where admin's metrics are read, as `edge.metrics_listen` says; such as `127.0.0.1:9465`.
    pub metrics_listen: Option<SocketAddr>,
}

impl Default for Admin {
    fn default() -> Self {
        Self { listen: address("127.0.0.1:8081"), spool: None, metrics_listen: None }
    }
}

/// `[code_host]`: who people sign in with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct CodeHost {
    /// `github` or `local`.
    pub kind: CodeHostKind,
    /// The code host's pages.
    pub web_url: Url,
    /// The code host's REST API.
    pub api_url: Url,
    /// Our application there. For signing in on the web its callback URL is `{console_url}/sign-in/callback`.
    pub client_id: String,
    /// Its secret. For `local`: the operator's secret, which the sign-in page asks for.
    pub client_secret: String,
    /// What push webhooks are signed with.
    pub webhook_secret: String,
    /// Our GitHub App's id, as its settings page shows it; `client_id` when absent, which GitHub takes as well.
    #[serde(deserialize_with = "number_or_text")]
    pub app_id: Option<String>,
    /// The file of the app's private key, as GitHub gave it. With it, pushes are read in the app's own name (installation
    /// access tokens); without it, in the name of who shared the installation or linked the repository.
    pub private_key_file: Option<PathBuf>,
}

impl Default for CodeHost {
    fn default() -> Self {
        Self {
            kind: CodeHostKind::Github,
            web_url: url("https://github.com"),
            api_url: url("https://api.github.com"),
            client_id: String::new(),
            client_secret: String::new(),
            webhook_secret: String::new(),
            app_id: None,
            private_key_file: None,
        }
    }
}

/// GitHub shows a number, which one writes as such.
fn number_or_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Number(u64),
        Text(String),
    }
    Ok(Option::<Id>::deserialize(deserializer)?.map(|id| match id {
        Id::Number(number) => number.to_string(),
        Id::Text(text) => text,
    }))
}

/// Which code host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeHostKind {
    /// GitHub, or a server that speaks its REST API.
    Github,
    /// None: a page of admin asks for a login and the operator's secret. For trying svc out.
    Local,
}

/// `[mail]`: letters to people.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Mail {
    /// `smtp://user:password@host:port` or `smtps://…`; no mail is sent when absent. Without `?tls=none`, `opportunistic`
    /// or `required`, smtp:// wants TLS (STARTTLS) for a password, takes it where offered, and does without on this machine.
    pub url: Option<Url>,
    /// Who writes: `Name <address>`; `no-reply` at the site domain when absent.
    pub from: Option<String>,
}

/// `[limits]`: rates.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// `POST /auth/device`, per IP address.
    pub auth_device_per_10_min: u32,
    /// `POST /auth/device/poll`, per IP address.
    pub auth_poll_per_10_min: u32,
    /// The control plane outside `/auth`, per token.
    pub api_per_min: u32,
    /// The AI gateway's completions, per account over all its keys.
    pub gateway_per_min: u32,
    /// Tokens read and written by the AI gateway's models, per account and UTC day.
    pub gateway_tokens_per_day: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            auth_device_per_10_min: 10,
            auth_poll_per_10_min: 180,
            api_per_min: 600,
            gateway_per_min: 60,
            gateway_tokens_per_day: 1_000_000,
        }
    }
}

/// `[billing]`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Billing {
    /// The plans, by id; the cheapest is that of accounts without a subscription. Written in the configuration, the table
    /// replaces the shipped one whole: `[billing.plans.free]` with `name`, `price_cents` and `limits`.
    pub plans: Plans,
}

/// `[secrets]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Secrets {
    /// The file of the master key; `certs master-key` makes one.
    pub master_key_file: PathBuf,
}

impl Default for Secrets {
    fn default() -> Self {
        Self { master_key_file: "/etc/svc/master.key".into() }
    }
}
