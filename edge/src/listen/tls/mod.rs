//! TLS: the handshake, with the certificate that the visitor's first message asks for.
//!
//! Sockets are in [`super::tcp`], the memory of certificates is in [`crate::memory`]. Start with [`Tls::handshake`].

mod records;
mod suites;
mod tickets;
mod validation;

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use domain::{Clock, addresses::Addresses};
use rustls::{
    ServerConfig,
    crypto::CryptoProvider,
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use secrets::EdgeKey;
use sqlx::PgPool;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{LazyConfigAcceptor, server::TlsStream};

pub(super) use self::records::Records;
use self::{tickets::Tickets, validation::Validations};
use crate::{
    limits::Shares,
    memory::{
        Challenges, Marks,
        certificates::{CertificateStore, Certificates},
    },
};

/// The asker for a certificate when no visitor asks for it.
const OURSELVES: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Server-side TLS: a configuration for each certificate, which differ in nothing else.
pub struct Tls {
    certificates: Certificates<Arc<ServerConfig>>,
    /// The name whose certificate is given to visitors who name no host.
    default_name: String,
    refusal: Arc<ServerConfig>,
    validations: Validations,
}

impl Tls {
    /// TLS with the certificates that are stored in `db`, of which memory keeps as many as `shares` has room for. The default is
    /// that of `site_domain`'s children. Authorities are answered with `challenges`.
    pub fn new(
        marks: Arc<Marks>,
        db: PgPool,
        key: EdgeKey,
        clock: Clock,
        (site_domain, addresses): (&str, Addresses),
        shares: &Shares,
        challenges: Arc<Challenges>,
    ) -> Result<Self, rustls::Error> {
        let provider = Arc::new(suites::provider());
        let tickets = Arc::new(Tickets::new(key.clone(), clock.clone()));
        let refusal = Arc::new(server_config(&provider, &tickets, Arc::new(NoCertificate))?);
        let validations = Validations::new(challenges, provider.clone());
        let store = CertificateStore { marks, db, key, clock, provider: provider.clone(), addresses };
        let certificates = Certificates::new(store, shares, move |certificate| {
            server_config(&provider, &tickets, Arc::new(One(Arc::new(certificate)))).map(Arc::new)
        });
        Ok(Self { certificates, default_name: format!("default.{site_domain}"), refusal, validations })
    }

    /// A handshake with `peer`. The certificate is looked up between the visitor's first message and our answer to it. Returns
    /// nothing when the peer is a certificate authority that has seen what it wanted to see.
    pub(super) async fn handshake<S>(&self, stream: S, peer: IpAddr) -> io::Result<Option<TlsStream<S>>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let start = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
        let name = start.client_hello().server_name().map(str::to_ascii_lowercase);
        if validation::is_asked_for(&start.client_hello()) {
            let answer = self.validations.answer(start, name.as_deref(), peer.into(), self.refusal.clone());
            // Boxed, because it is rare: a handshake's future is as large as its largest branch.
            return Box::pin(answer).await.map(|()| None);
        }
        let config = self.config_for(name.as_deref(), peer).await;
        let config = suites::for_client(config, &start.client_hello());
        start.into_stream(config).await.map(Some)
    }

    /// The configuration for a visitor who asks for `name`. An unknown name is refused with an alert, so that a
    /// certificate for something else is never shown; no name at all gets the default.
    async fn config_for(&self, name: Option<&str>, peer: IpAddr) -> Arc<ServerConfig> {
        let name = name.unwrap_or(&self.default_name);
        match self.certificates.remembered(name) {
            Some(config) => config,
            None => self.certificates.find(name, peer.into()).await.unwrap_or_else(|| self.refusal.clone()),
        }
    }

    /// Loads the default certificate, and warns when there is none.
    pub(super) async fn load_default(&self) {
        if self.certificates.find(&self.default_name, OURSELVES.into()).await.is_none() {
            tracing::warn!(name = self.default_name, "there is no certificate yet; `certs local-ca` makes one");
        }
    }
}

fn server_config(
    provider: &Arc<CryptoProvider>,
    tickets: &Arc<Tickets>,
    certificate: Arc<dyn ResolvesServerCert>,
) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    // The last is what a client of HTTP/1.0 offers, and nothing else; such a client is served as without TLS.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec(), b"http/1.0".to_vec()];
    // The first of our suites that both have, not the one that a client names first.
    config.ignore_client_order = true;
    config.ticketer = tickets.clone();
    // A ticket opens at every edge; a session kept here would only at this one.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 1;
    Ok(config)
}

/// A resolver that has one certificate, whatever is asked for.
#[derive(Debug)]
struct One(Arc<CertifiedKey>);

impl ResolvesServerCert for One {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// A resolver that has none: rustls ends the handshake with an alert.
#[derive(Debug)]
struct NoCertificate;

impl ResolvesServerCert for NoCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}
