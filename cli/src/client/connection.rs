//! The HTTP client: trusted certificate authorities and name resolution.

use std::{
    fs,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use domain::BRAND;
use reqwest::{
    Certificate,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};

use crate::{
    credentials::{Connection, is_localhost},
    failure::Failure,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn build(connection: &Connection) -> anyhow::Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .user_agent(format!("{BRAND}/{}", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        // The API never redirects, and the token must not be sent to another host.
        .redirect(Policy::none())
        // Requests are sequential: HTTP/2 would only add its flow-control window to every upload.
        .http1_only()
        .dns_resolver(Arc::new(LocalhostHere));
    if connection.api.host_str().is_some_and(is_localhost) {
        builder = builder.no_proxy();
    }
    if let Some(file) = &connection.ca_file {
        // In addition to the system's authorities, not instead of them.
        builder = builder.tls_certs_merge(authorities(file)?);
    }
    builder.build().context("Cannot set up TLS; are the system's certificate authorities (ca-certificates) installed?")
}

fn authorities(file: &Path) -> anyhow::Result<Vec<Certificate>> {
    let pem = fs::read(file)
        .map_err(|error| Failure::usage(format!("Cannot read the CA file {}: {error}.", file.display())))?;
    let certificates = Certificate::from_pem_bundle(&pem).unwrap_or_default();
    if certificates.is_empty() {
        return Err(Failure::usage(format!("{} holds no PEM certificate.", file.display())).into());
    }
    Ok(certificates)
}

/// A resolver that resolves `*.localhost` to loopback (RFC 6761) and leaves every other name to the system.
struct LocalhostHere;

impl Resolve for LocalhostHere {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let name = name.as_str();
            // Port 0 means the URL's own port.
            let addresses: Addrs = if is_localhost(name) {
                Box::new(
                    [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))]
                        .into_iter(),
                )
            } else {
                Box::new(tokio::net::lookup_host((name, 0)).await?.collect::<Vec<_>>().into_iter())
            };
            Ok(addresses)
        })
    }
}
