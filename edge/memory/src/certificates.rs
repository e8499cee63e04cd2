//! Certificates by name, each prepared for a listener.
//!
//! A certificate covers a name exactly, or as one of all children of a parent. The first kind is cached by name, the
//! second once for all children, by `.parent`. A name's own certificate takes precedence over its parent's.

use std::sync::Arc;

use db::certificates::{self, Certificate};
use domain::{
    Clock,
    addresses::{HostKey, HostKind, PlatformAddresses},
};
use fairness::Client;
use limits::MemoryShares;
use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use secrets::{EdgeKey, master_key::OpenError};
use sqlx::PgPool;

use super::{
    CacheReadError, Cached, ChangeMarks,
    recall::{ReadThroughCache, ReadThroughLimits, SourceRead},
};

/// The certificates in the database, and what is needed to read them.
pub struct CertificateSource {
    /// Determines which readings are current.
    pub marks: Arc<ChangeMarks>,
    /// The database.
    pub db: PgPool,
    /// Decrypts the private keys.
    pub key: EdgeKey,
    /// Determines which certificates are valid.
    pub clock: Clock,
    /// Loads the private keys.
    pub provider: Arc<CryptoProvider>,
    /// Determines which names are custom domains: their certificates are presented only while they are attached.
    pub addresses: PlatformAddresses,
}

/// A read-through cache of this edge's certificates, each as the `V` that a listener presents.
pub struct CertificateCache<V> {
    recall: ReadThroughCache<Box<str>, V>,
    store: CertificateSource,
    prepare: Box<dyn Fn(CertifiedKey) -> Result<V, rustls::Error> + Send + Sync>,
}

#[derive(Debug, thiserror::Error)]
enum CertificateError {
    #[error(
        "its key does not open with this edge's: secrets.edge_key_file is of another master key, or older than its rotation"
    )]
    Sealed(#[from] OpenError),
    #[error("its PEM is damaged: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error("{0}")]
    Tls(#[from] rustls::Error),
}

impl<V: Clone> CertificateCache<V> {
    /// Creates an empty cache over `store` within `shares`. `prepare` converts a certificate to what is presented.
    pub fn new(
        store: CertificateSource,
        shares: &MemoryShares,
        prepare: impl Fn(CertifiedKey) -> Result<V, rustls::Error> + Send + Sync + 'static,
    ) -> Self {
        let bounds = ReadThroughLimits {
            present: shares.certificates,
            usual: limits::USUAL_CERTIFICATE_BYTES,
            absent: shares.absences(),
            present_life: None,
            absent_life: Some(limits::NO_CERTIFICATE_LIFE),
            // Even with expired knowledge, visitors need TLS to receive the error.
            can_lapse: false,
            flights: limits::FLIGHTS,
            askers_per_client: limits::ASKERS_PER_CLIENT,
            reads: limits::CERTIFICATE_READS,
            reads_per_client: limits::CERTIFICATE_READS_PER_CLIENT,
            wait: limits::CERTIFICATE_WAIT,
            tries: limits::READ_TRIES,
            back_off: limits::READ_BACK_OFF,
            failures: limits::FAILURES,
        };
        Self { recall: ReadThroughCache::new(store.marks.clone(), bounds), store, prepare: Box::new(prepare) }
    }

    /// Returns what is presented for `name` (lower case), if it is cached. Never waits.
    pub fn cached(&self, name: &str) -> Option<V> {
        match self.lookup(name) {
            Cached::Present(value) => Some(value),
            Cached::Absent | Cached::Unknown => None,
        }
    }

    /// Returns what is presented for `name` (lower case) to `asker`: the last usable value if a new one cannot be read.
    pub async fn find(&self, name: &str, asker: Client) -> Option<V> {
        let key: Box<str> = name.into();
        match self.recall.find_by(&key, asker, || self.lookup(name), |_| self.read(name)).await {
            Ok(found) => found,
            Err(error) => {
                let last = self.recall.last_value(name);
                let last = last.or_else(|| self.recall.last_value(wildcard_name(name)?));
                tracing::error!(name, %error, keeps_last = last.is_some(), "no certificate could be loaded");
                last
            }
        }
    }

    fn lookup(&self, name: &str) -> Cached<V> {
        let own = self.recall.cached(name);
        if matches!(own, Cached::Present(_)) {
            return own;
        }
        let shared = wildcard_name(name).and_then(|parent| self.recall.cached_for(parent, name));
        shared.map_or(own, Cached::Present)
    }

    async fn read(&self, name: &str) -> Result<SourceRead<Box<str>, V>, CacheReadError> {
        let wildcard = wildcard_name(name).map(|parent| format!("*{parent}"));
        let names: Vec<String> = std::iter::once(name.to_owned()).chain(wildcard).collect();
        let CertificateSource { marks, db, clock, addresses, .. } = &self.store;
        let failed = |error| CacheReadError::from_database("certificates", &error);
        // Read first: the certificate may be newer than the reading says, never older. The last extent limits that.
        let first = db::edges::routes::current_extent(db).await.map_err(failed)?;
        let domain = match addresses.classify(name) {
            HostKind::Site(key @ HostKey::Domain(_)) => Some(key.label()),
            _ => None,
        };
        let covering = certificates::find_presented(db, &names, domain.is_some(), clock.now()).await.map_err(failed)?;
        let last_extent = db::edges::routes::current_extent(db).await.map_err(failed)?;
        let reading = |depends_on| marks.reading_between(&first, &last_extent, depends_on);
        let last = names.last().map_or(name, String::as_str);
        // A domain's certificate also depends on whether the domain is attached.
        let depends_on = [name, last, domain.as_deref().unwrap_or(last)];
        let Some(certificate) = covering else {
            return Ok(SourceRead { key: name.into(), value: None, reading: reading(depends_on), bytes: 0 });
        };
        let unusable = |error: CertificateError| CacheReadError::Unreadable(error.to_string().into());
        let (value, bytes) = self.prepare(&certificate).map_err(unusable)?;
        tracing::info!(name, id = certificate.id.as_str(), until = %certificate.not_after, "certificate loaded");
        // Cached under the requested name, not under all names it covers: another certificate may be newer for those.
        let is_own = !name.starts_with('*') && certificate.names.iter().any(|covered| covered == name);
        let (key, depends_on) = match wildcard_name(name) {
            Some(parent) if !is_own => (parent, [last; 3]),
            _ => (name, depends_on),
        };
        Ok(SourceRead { key: key.into(), value: Some(value), reading: reading(depends_on), bytes })
    }

    /// Decrypts a certificate's key. Returns what visitors are presented with, and the bytes of memory that it takes.
    fn prepare(&self, certificate: &Certificate) -> Result<(V, u64), CertificateError> {
        let chain = CertificateDer::pem_slice_iter(certificate.chain_pem.as_bytes()).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(&certificate.open_key_at_edge(&self.store.key)?)?;
        let stored = chain.iter().map(|part| part.len()).sum::<usize>() + key.secret_der().len();
        let value = (self.prepare)(CertifiedKey::from_der(chain, key, &self.store.provider)?)?;
        Ok((value, limits::CERTIFICATE_BYTES + stored as u64))
    }
}

/// Returns `.parent` of `child.parent`.
fn wildcard_name(name: &str) -> Option<&str> {
    name.find('.').map(|dot| &name[dot..])
}
