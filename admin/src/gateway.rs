//! The AI gateway as its clients reach it: for completions that people try out in the console, whose pages may connect to
//! no other host.
//!
//! Not here: the gateway, which is the edge's. Nothing of a completion is kept or logged, and its key neither.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

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
/// Longest time for a completion, its answer included. Below the time for which an edge waits for admin, so that what is
/// late is answered.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(285);
/// Largest answer that is passed on: the longest completion with all that a stream says beside it stays below.
const ANSWER_BYTES: u64 = 32 * MB;
/// Bytes of the file with the local authority's certificate.
const ROOT_BYTES: u64 = 1024 * 1024;
const COMPLETIONS_PATH: &str = "/v1/chat/completions";
const USER_AGENT: &str = concat!("svc/", env!("CARGO_PKG_VERSION"));

/// A client of the gateway. Cheap to clone.
#[derive(Clone)]
pub struct GatewayClient {
    client: Client,
    completions: Url,
}

/// The gateway's answer to a completion.
pub struct GatewayAnswer<S> {
    /// The status.
    pub status: StatusCode,
    /// `Content-Type`.
    pub content_type: Option<HeaderValue>,
    /// `Retry-After`.
    pub retry_after: Option<HeaderValue>,
    /// The body, as it comes. Dropped before its end, it ends the completion.
    pub body: S,
}

/// The reason for which there is no answer of the gateway, or no end of one.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The gateway could not be asked, did not answer in time, or broke off.
    #[error("the AI gateway: {0}")]
    Unreachable(#[source] reqwest::Error),
    /// Something else than the gateway answers at its address.
    #[error("the AI gateway's address answers {0}; see admin.gateway_url")]
    Redirect(StatusCode),
    /// The answer is longer than any of the gateway's.
    #[error("the AI gateway's answer has more than {ANSWER_BYTES} bytes")]
    TooLong,
}

impl GatewayClient {
    /// Prepares a client of the gateway at `admin.gateway_url`, else at `site.ai_url`. Either way the name in the handshake and
    /// in the request is that of `site.ai_url`.
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
        let resolver = Arc::new(Way(way.host().map(|host| host.to_owned())));
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT_TIMEOUT)
            // A key must not follow a redirect elsewhere.
            .redirect(redirect::Policy::none())
            .no_proxy()
            // A connection carries one completion, and ends with it when nobody reads on.
            .http1_only()
            .dns_resolver(resolver);
        if let Some(folder) = &config.acme.local_dir {
            match local_root(&certs::local_ca::root_file(folder)) {
                // Beside the authorities that this machine trusts.
                Ok(root) => builder = builder.tls_certs_merge(root),
                Err(error) => tracing::debug!(%error, "the local authority's certificate was not read"),
            }
        }
        Ok(Self { client: builder.build().context("the HTTP client for the AI gateway")?, completions })
    }

    /// Asks for a completion with `key`, and returns the answer once it has begun.
    pub async fn complete(
        &self,
        key: &TokenSecret,
        request: &Map<String, Value>,
    ) -> Result<GatewayAnswer<impl Stream<Item = Result<Bytes, GatewayError>> + Send + use<>>, GatewayError> {
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
        Ok(GatewayAnswer { status, content_type, retry_after, body })
    }
}

fn unreachable(error: reqwest::Error) -> GatewayError {
    GatewayError::Unreachable(error.without_url())
}

fn local_root(file: &Path) -> anyhow::Result<Vec<Certificate>> {
    ensure!(fs::metadata(file)?.len() <= ROOT_BYTES, "it is larger than {ROOT_BYTES} bytes");
    Ok(Certificate::from_pem_bundle(&fs::read(file)?)?)
}

/// The resolution of the gateway's name: to the host of `admin.gateway_url`, or by DNS.
struct Way(Option<Host>);

impl Resolve for Way {
    fn resolve(&self, _: Name) -> Resolving {
        let host = self.0.clone();
        Box::pin(async move {
            // Port 0 stands for the URL's own.
            let addresses: Addrs = match host {
                Some(Host::Ipv4(address)) => Box::new(std::iter::once(SocketAddr::from((address, 0)))),
                Some(Host::Ipv6(address)) => Box::new(std::iter::once(SocketAddr::from((address, 0)))),
                // Loopback by RFC 6761, whatever the machine's resolver knows.
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
