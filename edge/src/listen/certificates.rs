//! Certificates by name: out of memory, or read from Postgres before the handshake goes on.

use std::sync::Arc;

use db::certificates::{self, Certificate};
use domain::Clock;
use moka::sync::Cache;
use rustls::{
    ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use secrets::MasterKey;
use sqlx::PgPool;
use tokio::sync::Semaphore;

use super::tickets::Tickets;
use crate::limits;

/// What TLS offers beside certificates, the same for all.
pub(crate) struct Certificates {
    db: PgPool,
    master_key: MasterKey,
    clock: Clock,
    provider: Arc<CryptoProvider>,
    tickets: Arc<Tickets>,
    /// By exact name, or by `.parent` for a wildcard.
    known: Cache<Box<str>, Arc<ServerConfig>>,
    none: Cache<Box<str>, ()>,
    reads: Semaphore,
    /// Given to visitors who name no host.
    default_name: String,
    refusal: Arc<ServerConfig>,
}

/// Why a stored certificate cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("the database does not answer: {0}")]
    Unread(#[from] sqlx::Error),
    #[error("its key does not open with this master key")]
    Sealed(#[from] secrets::master_key::Unopenable),
    #[error("its PEM is damaged: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error("{0}")]
    Tls(#[from] rustls::Error),
}

impl Certificates {
    /// With an empty memory. `site_domain`'s wildcard is the default.
    pub(crate) fn new(
        db: PgPool,
        master_key: MasterKey,
        clock: Clock,
        site_domain: &str,
    ) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tickets = Arc::new(Tickets::new(master_key.clone(), clock.clone()));
        let refusal = Arc::new(server_config(&provider, &tickets, Arc::new(NoCertificate))?);
        Ok(Self {
            db,
            master_key,
            clock,
            provider,
            tickets,
            known: Cache::new(limits::REMEMBERED_CERTIFICATES),
            none: Cache::builder()
                .max_capacity(limits::REMEMBERED_NO_CERTIFICATES)
                .time_to_live(limits::NO_CERTIFICATE_LIFE)
                .build(),
            reads: Semaphore::new(limits::CERTIFICATE_READS),
            default_name: format!("default.{site_domain}"),
            refusal,
        })
    }

    /// The configuration for a visitor who asks for `name`. An unknown name is refused with an alert, so that a
    /// certificate for something else is never shown; no name at all gets the default.
    pub(crate) async fn config_for(&self, name: Option<&str>) -> Arc<ServerConfig> {
        let name = name.unwrap_or(&self.default_name);
        match self.remembered(name) {
            Some(config) => config,
            None => self.read_in_turn(name).await.unwrap_or_else(|| self.refusal.clone()),
        }
    }

    fn remembered(&self, name: &str) -> Option<Arc<ServerConfig>> {
        self.known.get(name).or_else(|| self.known.get(wildcard_of(name)?))
    }

    async fn read_in_turn(&self, name: &str) -> Option<Arc<ServerConfig>> {
        if self.none.contains_key(name) {
            return None;
        }
        let _turn = self.reads.acquire().await.ok()?;
        if let Some(config) = self.remembered(name) {
            return Some(config);
        }
        match self.read(name).await {
            Ok(Some(config)) => Some(config),
            Ok(None) => {
                self.none.insert(name.into(), ());
                None
            }
            Err(error) => {
                tracing::error!(name, %error, "no certificate");
                None
            }
        }
    }

    async fn read(&self, name: &str) -> Result<Option<Arc<ServerConfig>>, Unusable> {
        let wildcard = wildcard_of(name).map(|parent| format!("*{parent}"));
        let names: Vec<String> = std::iter::once(name.to_owned()).chain(wildcard).collect();
        let Some(certificate) = certificates::covering(&self.db, &names, self.clock.now()).await? else {
            return Ok(None);
        };
        let config = Arc::new(self.usable(&certificate)?);
        // Under the name that was asked for, not under all that it covers: for those another one may be newer.
        let is_exact = !name.starts_with('*') && certificate.names.iter().any(|covered| covered == name);
        let key = if is_exact { name } else { wildcard_of(name).unwrap_or(name) };
        self.known.insert(key.into(), config.clone());
        tracing::info!(name, id = certificate.id.as_str(), until = %certificate.not_after, "certificate loaded");
        Ok(Some(config))
    }

    fn usable(&self, certificate: &Certificate) -> Result<ServerConfig, Unusable> {
        let chain = CertificateDer::pem_slice_iter(certificate.chain_pem.as_bytes()).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(&certificate.open_key(&self.master_key)?)?;
        let certified = CertifiedKey::from_der(chain, key, &self.provider)?;
        Ok(server_config(&self.provider, &self.tickets, Arc::new(One(Arc::new(certified))))?)
    }

    /// Loads the default, then, for as long as it is polled, what replaces a certificate in memory.
    pub(crate) async fn watch(&self) {
        let mut since = self.clock.now();
        if Arc::ptr_eq(&self.config_for(None).await, &self.refusal) {
            tracing::warn!(name = self.default_name, "there is no certificate yet; `certs local-ca` makes one");
        }
        loop {
            tokio::time::sleep(limits::CERTIFICATES_EVERY).await;
            let looked = self.clock.now();
            match certificates::names_stored_since(&self.db, since - limits::CLOCK_SKEW).await {
                Ok(names) => {
                    since = looked;
                    self.replace(&names).await;
                }
                Err(error) => tracing::warn!(%error, "new certificates cannot be looked for"),
            }
        }
    }

    async fn replace(&self, names: &[String]) {
        for name in names.iter().filter(|name| self.presents_at(name)) {
            if let Err(error) = self.read(name).await {
                tracing::error!(name, %error, "the new certificate cannot be used; keeping the old");
            }
        }
    }
}

impl Certificates {
    /// Whether some certificate is in memory for a covered name: its own, or one of all its siblings.
    fn presents_at(&self, name: &str) -> bool {
        match name.strip_prefix('*') {
            Some(parent) => self.known.contains_key(parent),
            None => self.remembered(name).is_some(),
        }
    }
}

/// `.parent` of `child.parent`.
fn wildcard_of(name: &str) -> Option<&str> {
    name.find('.').map(|dot| &name[dot..])
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
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ticketer = tickets.clone();
    // A ticket opens at every edge; a session kept here would only at this one.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 1;
    Ok(config)
}

/// Always the same certificate.
#[derive(Debug)]
struct One(Arc<CertifiedKey>);

impl ResolvesServerCert for One {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// None: rustls ends the handshake with an alert.
#[derive(Debug)]
struct NoCertificate;

impl ResolvesServerCert for NoCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}
