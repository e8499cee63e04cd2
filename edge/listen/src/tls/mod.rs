//! TLS: the handshake, with the certificate that the visitor's first message asks for.
//!
//! Sockets are in [`super::tcp`], the cache of certificates is in [`memory`]. Start with [`TlsServer::handshake`].

mod records;
mod suites;
mod tickets;
mod validation;

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use domain::{Clock, addresses::PlatformAddresses};
use limits::MemoryShares;
use memory::{
    ChallengeReader, ChangeMarks,
    certificates::{CertificateCache, CertificateSource},
};
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

pub(super) use self::records::RecordStream;
use self::{tickets::SessionTickets, validation::AcmeValidations};

/// The client of certificate lookups that no visitor requests.
const OURSELVES: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Server-side TLS: one configuration per certificate, which differ only in the certificate.
pub struct TlsServer {
    certificates: CertificateCache<Arc<ServerConfig>>,
    /// The name whose certificate is presented to visitors that name no host.
    default_name: String,
    refusal: Arc<ServerConfig>,
    validations: AcmeValidations,
}

impl TlsServer {
    /// Creates TLS with the certificates in `db`, cached within `shares`. The default certificate is the wildcard of
    /// `site_domain`. Certificate authorities receive the responses in `challenges`.
    pub fn new(
        marks: Arc<ChangeMarks>,
        db: PgPool,
        key: EdgeKey,
        clock: Clock,
        (site_domain, addresses): (&str, PlatformAddresses),
        shares: &MemoryShares,
        challenges: Arc<ChallengeReader>,
    ) -> Result<Self, rustls::Error> {
        let provider = Arc::new(suites::provider());
        let tickets = Arc::new(SessionTickets::new(key.clone(), clock.clone()));
        let refusal = Arc::new(server_config(&provider, &tickets, Arc::new(NoCertificate))?);
        let validations = AcmeValidations::new(challenges, provider.clone());
        let store = CertificateSource { marks, db, key, clock, provider: provider.clone(), addresses };
        let certificates = CertificateCache::new(store, shares, move |certificate| {
            server_config(&provider, &tickets, Arc::new(SingleCertificate(Arc::new(certificate)))).map(Arc::new)
        });
        Ok(Self { certificates, default_name: format!("default.{site_domain}"), refusal, validations })
    }

    /// Performs a handshake with `peer`, and looks up the certificate between the visitor's first message and our
    /// response. Returns `None` if the peer is a certificate authority whose validation is complete.
    pub(super) async fn handshake<S>(&self, stream: S, peer: IpAddr) -> io::Result<Option<TlsStream<S>>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let start = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
        let name = start.client_hello().server_name().map(str::to_ascii_lowercase);
        if validation::is_validation(&start.client_hello()) {
            let answer = self.validations.answer(start, name.as_deref(), peer.into(), self.refusal.clone());
            // Boxed, because it is rare: a handshake's future is as large as its largest branch.
            return Box::pin(answer).await.map(|()| None);
        }
        let config = self.config_for(name.as_deref(), peer).await;
        let config = suites::for_client(config, &start.client_hello());
        start.into_stream(config).await.map(Some)
    }

    /// Returns the configuration for `name`. An unknown name is refused with an alert, so that a certificate for
    /// another name is never presented; without a name, the default is used.
    async fn config_for(&self, name: Option<&str>, peer: IpAddr) -> Arc<ServerConfig> {
        let name = name.unwrap_or(&self.default_name);
        match self.certificates.cached(name) {
            Some(config) => config,
            None => self.certificates.find(name, peer.into()).await.unwrap_or_else(|| self.refusal.clone()),
        }
    }

    /// Loads the default certificate, and logs a warning if there is none.
    pub(super) async fn load_default(&self) {
        if self.certificates.find(&self.default_name, OURSELVES.into()).await.is_none() {
            tracing::warn!(name = self.default_name, "there is no certificate yet; `certs local-ca` makes one");
        }
    }
}

fn server_config(
    provider: &Arc<CryptoProvider>,
    tickets: &Arc<SessionTickets>,
    certificate: Arc<dyn ResolvesServerCert>,
) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    // HTTP/1.0 clients offer only the last one; they are served as without TLS.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec(), b"http/1.0".to_vec()];
    // Chooses the first of our suites that both support, not the client's first.
    config.ignore_client_order = true;
    config.ticketer = tickets.clone();
    // Every edge can decrypt a ticket; a stored session would be known only to this one.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 1;
    Ok(config)
}

#[derive(Debug)]
struct SingleCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for SingleCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// A resolver without a certificate: rustls ends the handshake with an alert.
#[derive(Debug)]
struct NoCertificate;

impl ResolvesServerCert for NoCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}
