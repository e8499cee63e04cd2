//! A client of the AI gateway, for completions tried out in the console, whose pages may connect to no other host.
//!
//! The gateway itself is part of the edge. Neither a completion nor its key is stored or logged.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use admin_http::error::{ApiError, Code};
use anyhow::{Context as _, ensure};
use bytes::Bytes;
use config::Config;
use domain::{hostname::is_within, limits::MB, token::TokenSecret};
use futures_util::{Stream, StreamExt as _};
use http::{HeaderValue, StatusCode, header};
use reqwest::{
    Certificate, Client,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};
use serde_json::{Map, Value};
use url::{Host, Url};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a completion with its response. Below the edge's timeout for admin, so that a late one gets an error.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(285);
/// The maximum size of a relayed response, which exceeds the longest completion with all that a stream adds to it.
const ANSWER_BYTES: u64 = 32 * MB;
/// The maximum size of the file with the local authority's certificate.
const ROOT_BYTES: u64 = 1024 * 1024;
const COMPLETIONS_PATH: &str = "/v1/chat/completions";
const USER_AGENT: &str = concat!("svc/", env!("CARGO_PKG_VERSION"));

/// A client of the gateway. Cheap to clone.
#[derive(Clone)]
pub struct GatewayClient {
    client: Client,
    completions: Url,
}

/// The gateway's response to a completion request.
pub struct GatewayResponse<S> {
    /// The status.
    pub status: StatusCode,
    /// `Content-Type`.
    pub content_type: Option<HeaderValue>,
    /// `Retry-After`.
    pub retry_after: Option<HeaderValue>,
    /// The body as it arrives. Dropping it before its end cancels the completion.
    pub body: S,
}

/// The reason why the gateway's response is missing or incomplete.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The gateway was unreachable, did not answer in time, or broke off.
    #[error("the AI gateway: {0}")]
    Unreachable(#[source] reqwest::Error),
    /// Something other than the gateway answers at its address.
    #[error("the AI gateway's address answers {0}; see admin.gateway_url")]
    Redirect(StatusCode),
    /// The response exceeds the limit.
    #[error("the AI gateway's answer has more than {ANSWER_BYTES} bytes")]
    TooLong,
}

impl GatewayClient {
    /// Creates a client of the gateway at `admin.gateway_url`, or otherwise at `site.ai_url`. In either case, the TLS
    /// handshake and the request use the name of `site.ai_url`.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let public = &config.site.ai_url;
        let way = config.admin.gateway_url.as_ref().unwrap_or(public);
        ensure!(
            matches!(way.scheme(), "http" | "https"),
            "admin.gateway_url: {way} is not an http:// or https:// address"
        );
        let mut completions = way.clone();
        completions.set_host(public.host_str()).context("site.ai_url")?;
        completions.set_path(COMPLETIONS_PATH);
        let resolver = Arc::new(GatewayResolver(way.host().map(|host| host.to_owned())));
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT_TIMEOUT)
            // A key must not follow a redirect elsewhere.
            .redirect(redirect::Policy::none())
            .no_proxy()
            // Each connection carries one completion, and closes when nobody reads it any more.
            .http1_only()
            .dns_resolver(resolver);
        if let Some(folder) = &config.acme.local_dir {
            match local_root(&certs::local_ca::root_file(folder)) {
                // In addition to the authorities that this machine trusts.
                Ok(root) => builder = builder.tls_certs_merge(root),
                Err(error) => tracing::debug!(%error, "the local authority's certificate was not read"),
            }
        }
        Ok(Self { client: builder.build().context("the HTTP client for the AI gateway")?, completions })
    }

    /// Requests a completion with `key`, and returns the response once it has started.
    pub async fn complete(
        &self,
        key: &TokenSecret,
        request: &Map<String, Value>,
    ) -> Result<GatewayResponse<impl Stream<Item = Result<Bytes, GatewayError>> + Send + use<>>, GatewayError> {
        let request = self.client.post(self.completions.clone()).bearer_auth(key.expose()).json(request);
        let answer = request.timeout(COMPLETION_TIMEOUT).send().await.map_err(unreachable)?;
        let status = answer.status();
        if status.is_redirection() {
            return Err(GatewayError::Redirect(status));
        }
        let field = |name| answer.headers().get(name).cloned();
        let (content_type, retry_after) = (field(header::CONTENT_TYPE), field(header::RETRY_AFTER));
        let mut left = ANSWER_BYTES;
        let body = answer.bytes_stream().map(move |chunk| {
            let chunk = chunk.map_err(unreachable)?;
            left = left.checked_sub(chunk.len() as u64).ok_or(GatewayError::TooLong)?;
            Ok(chunk)
        });
        Ok(GatewayResponse { status, content_type, retry_after, body })
    }
}

fn unreachable(error: reqwest::Error) -> GatewayError {
    GatewayError::Unreachable(error.without_url())
}

fn local_root(file: &Path) -> anyhow::Result<Vec<Certificate>> {
    ensure!(fs::metadata(file)?.len() <= ROOT_BYTES, "it is larger than {ROOT_BYTES} bytes");
    Ok(Certificate::from_pem_bundle(&fs::read(file)?)?)
}

/// Resolves the gateway's name: to the host of `admin.gateway_url`, or through DNS.
struct GatewayResolver(Option<Host>);

impl Resolve for GatewayResolver {
    fn resolve(&self, _: Name) -> Resolving {
        let host = self.0.clone();
        Box::pin(async move {
            // Port 0 means the URL's own port.
            let addresses: Addrs = match host {
                Some(Host::Ipv4(address)) => Box::new(std::iter::once(SocketAddr::from((address, 0)))),
                Some(Host::Ipv6(address)) => Box::new(std::iter::once(SocketAddr::from((address, 0)))),
                // Loopback according to RFC 6761, whatever the machine's resolver says.
                Some(Host::Domain(name)) if is_within(&name, "localhost") => {
                    Box::new(std::iter::once(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))
                }
                Some(Host::Domain(name)) => Box::new(tokio::net::lookup_host((name, 0)).await?),
                None => return Err(io::Error::from(io::ErrorKind::NotFound).into()),
            };
            Ok(addresses)
        })
    }
}

impl From<GatewayError> for ApiError {
    fn from(error: GatewayError) -> Self {
        Self::new(Code::GatewayUnavailable, "The AI gateway does not answer; please try again in a moment.")
            .caused_by(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completions(gateway_url: Option<&str>) -> anyhow::Result<String> {
        let mut config = Config::default();
        config.admin.gateway_url = gateway_url.map(|url| url.parse().unwrap());
        Ok(GatewayClient::new(&config)?.completions.to_string())
    }

    #[test]
    fn the_name_is_always_the_public_one() {
        for (given, wanted) in [
            (None, "https://ai.svc.localhost:8443/v1/chat/completions"),
            (Some("https://127.0.0.1:9443"), "https://ai.svc.localhost:9443/v1/chat/completions"),
            (Some("http://edge.internal/x"), "http://ai.svc.localhost/v1/chat/completions"),
            (Some("https://[::1]:9"), "https://ai.svc.localhost:9/v1/chat/completions"),
        ] {
            assert_eq!(completions(given).unwrap(), wanted);
        }
        assert!(completions(Some("ftp://127.0.0.1")).is_err());
    }
}
