//! Performs a TLS handshake with a custom domain as its visitors' browsers do, to see which certificate it presents,
//! and whether browsers would accept it.

use std::{
    fmt,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use certs::chain::PresentedCertificate;
use config::Config;
use domain::{Clock, Hostname, Timestamp, networks::is_global};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    time_provider::TimeProvider,
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use crate::{HostnameResolver, LookError};

/// The timeout of a whole probe: DNS lookup, connection and handshake.
const LOOK_WAIT: Duration = Duration::from_secs(5);
/// The timeout of connecting to one address. Several may have to be tried.
const CONNECT_WAIT: Duration = Duration::from_millis(1_500);
const MOST_ADDRESSES: usize = 6;
const ROOTS_BYTES: u64 = 1024 * 1024;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Probes the certificates of custom domains. Clones share the public roots.
#[derive(Clone)]
pub struct CertificateProbe {
    hostnames: HostnameResolver,
    clock: Clock,
    public_roots: Arc<RootCertStore>,
    /// The files with the roots of our own authorities. They are read for each probe, because `certs local-ca` may
    /// create one at any time.
    own_roots: Arc<[PathBuf]>,
    provider: Arc<CryptoProvider>,
    port: u16,
    allow_private: bool,
}

/// A certificate presented to visitors.
#[derive(Debug)]
pub struct ProbedCertificate {
    /// The certificate.
    pub leaf: PresentedCertificate,
    /// The time at which it was presented.
    pub at: Timestamp,
    /// The reason why browsers reject it; `None` if they accept it.
    pub flaw: Option<CertificateFlaw>,
}

/// The reason why browsers reject a certificate. The message addresses the domain's owner.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFlaw {
    /// The certificate has expired.
    #[error("The certificate ended on {0}, and browsers refuse it.")]
    Expired(Timestamp),
    /// The certificate is not valid yet.
    #[error("The certificate is valid from {0} on; the clock of the server that shows it may be wrong.")]
    NotYetValid(Timestamp),
    /// The certificate is for other names.
    #[error("The certificate is for {shown}, and not for {domain}; the domain may still lead to another server.")]
    OtherName {
        /// One of the certificate's names.
        shown: String,
        /// The probed domain.
        domain: Hostname,
    },
    /// The certificate is self-signed.
    #[error(
        "The certificate is signed by itself, and browsers refuse it; the domain may still lead to another server."
    )]
    SelfSigned,
    /// The issuer is not trusted, or intermediate certificates are missing.
    #[error("The certificate's chain leads to no authority that browsers trust.")]
    UnknownIssuer,
    /// The verification failed for another reason.
    #[error("The certificate does not stand up to the checks that browsers make.")]
    Unverified,
    /// The server did not prove possession of the certificate's key.
    #[error("A certificate is shown, but the handshake fails after it.")]
    Unproved,
}

/// The reason why no certificate was seen. The message addresses the domain's owner.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The DNS lookup failed.
    #[error("The domain's addresses could not be looked up; try again in a moment.")]
    Lookup(#[source] LookError),
    /// The domain has no address.
    #[error("The domain has no address in DNS yet.")]
    NoAddress,
    /// Every address lies in a private network.
    #[error("The domain leads to {0}, which is not an address of the public internet.")]
    Private(IpAddr),
    /// No address accepts connections.
    #[error("Nothing answers at {0} on port {1}.")]
    NoConnection(IpAddr, u16),
    /// The server responded too slowly, or not at all.
    #[error("The domain does not answer within {0} seconds.")]
    TimedOut(u64),
    /// The handshake ended before a certificate was presented.
    #[error("The server at the domain shows no certificate for it.")]
    NoCertificate,
}

impl ProbedCertificate {
    /// Returns the whole days until the certificate expires; negative if it has expired.
    pub fn days_remaining(&self) -> i64 {
        (self.leaf.not_after.unix_seconds() - self.at.unix_seconds()).div_euclid(DAY_SECONDS)
    }

    /// Returns the certificate's subject, else its name for `domain`, else its first name.
    pub fn subject(&self, domain: &Hostname) -> Option<String> {
        let own = || self.leaf.names.iter().find(|name| *name == domain.as_str());
        self.leaf.subject.clone().or_else(|| own().or(self.leaf.names.first()).cloned())
    }
}

impl CertificateProbe {
    /// Creates a probe of the configured port, at the addresses that `hostnames` finds.
    pub fn new(config: &Config, hostnames: HostnameResolver, clock: Clock) -> Self {
        let mut public_roots = RootCertStore::empty();
        let native = rustls_native_certs::load_native_certs();
        let (known, _) = public_roots.add_parsable_certificates(native.certs);
        if known == 0 {
            tracing::warn!("this machine trusts no public authority; install its package ca-certificates");
        }
        let acme = &config.acme;
        let local = acme.local_dir.as_deref().map(certs::local_ca::root_file);
        Self {
            hostnames,
            clock,
            public_roots: Arc::new(public_roots),
            own_roots: acme.ca_file.clone().into_iter().chain(local).collect(),
            provider: Arc::new(aws_lc_rs::default_provider()),
            port: acme.probe_port,
            allow_private: config.limits.probe_allow_private,
        }
    }

    /// Returns the certificate that visitors of `domain` see now.
    pub async fn probe(&self, domain: &Hostname) -> Result<ProbedCertificate, ProbeError> {
        timeout(LOOK_WAIT, self.connect_and_probe(domain))
            .await
            .unwrap_or_else(|_| Err(ProbeError::TimedOut(LOOK_WAIT.as_secs())))
    }

    async fn connect_and_probe(&self, domain: &Hostname) -> Result<ProbedCertificate, ProbeError> {
        let addresses = self.hostnames.addresses(domain).await.map_err(ProbeError::Lookup)?;
        let addresses = permitted(&addresses, self.allow_private)?;
        let stream = self.connect(&addresses).await?;
        self.handshake(stream, domain).await
    }

    /// Connects to the first of these addresses that accepts the connection. It does not look up the name again.
    async fn connect(&self, addresses: &[IpAddr]) -> Result<TcpStream, ProbeError> {
        let mut last = ProbeError::NoAddress;
        for address in addresses.iter().take(MOST_ADDRESSES) {
            match timeout(CONNECT_WAIT, TcpStream::connect((*address, self.port))).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(_)) | Err(_) => last = ProbeError::NoConnection(*address, self.port),
            }
        }
        Err(last)
    }

    async fn handshake(&self, stream: TcpStream, domain: &Hostname) -> Result<ProbedCertificate, ProbeError> {
        let at = self.clock.now();
        let witness = Arc::new(RecordingVerifier {
            judge: self.build_verifier().await,
            provider: self.provider.clone(),
            seen: Mutex::default(),
        });
        let config = self.client_config(&witness, at).map_err(|_| ProbeError::NoCertificate)?;
        let name = ServerName::try_from(domain.to_string()).map_err(|_| ProbeError::NoCertificate)?;
        let finished = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        let seen = witness.seen.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (leaf, verdict) = seen.ok_or(ProbeError::NoCertificate)?;
        let leaf = PresentedCertificate::read(&leaf).ok_or(ProbeError::NoCertificate)?;
        let flaw = match verdict {
            Err(error) => Some(flaw(&error, &leaf, domain)),
            Ok(()) => finished.is_err().then_some(CertificateFlaw::Unproved),
        };
        Ok(ProbedCertificate { leaf, at, flaw })
    }

    fn client_config(&self, witness: &Arc<RecordingVerifier>, at: Timestamp) -> Result<ClientConfig, TlsError> {
        let mut config = ClientConfig::builder_with_details(self.provider.clone(), Arc::new(FixedTime(at)))
            .with_protocol_versions(&[&TLS13, &TLS12])?
            .dangerous()
            .with_custom_certificate_verifier(witness.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// Returns a verifier like that of browsers; `None` if no root is trusted.
    async fn build_verifier(&self) -> Option<Arc<WebPkiServerVerifier>> {
        let mut roots = RootCertStore::clone(&self.public_roots);
        for path in &*self.own_roots {
            match read_roots(path).await {
                Ok(own) => drop(roots.add_parsable_certificates(own)),
                Err(error) => tracing::debug!(path = %path.display(), %error, "no root certificate was read"),
            }
        }
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone()).build().ok()
    }
}

async fn read_roots(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let length = tokio::fs::metadata(path).await?.len();
    anyhow::ensure!(length <= ROOTS_BYTES, "it is larger than {ROOTS_BYTES} bytes");
    let pem = tokio::fs::read(path).await?;
    Ok(CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>()?)
}

fn permitted(addresses: &[IpAddr], allow_private: bool) -> Result<Vec<IpAddr>, ProbeError> {
    let permitted: Vec<_> = addresses.iter().copied().filter(|address| allow_private || is_global(*address)).collect();
    match addresses.first() {
        None => Err(ProbeError::NoAddress),
        Some(first) if permitted.is_empty() => Err(ProbeError::Private(*first)),
        Some(_) => Ok(permitted),
    }
}

fn flaw(error: &TlsError, leaf: &PresentedCertificate, domain: &Hostname) -> CertificateFlaw {
    // Check the name before the issuer: a certificate for another name means another server, or one that does not know
    // the domain.
    if !leaf.names.iter().any(|name| is_for(name, domain)) {
        let shown = leaf.names.first().or(leaf.subject.as_ref());
        return CertificateFlaw::OtherName {
            shown: shown.map_or("no name", String::as_str).to_owned(),
            domain: domain.clone(),
        };
    }
    let TlsError::InvalidCertificate(error) = error else { return CertificateFlaw::Unverified };
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => CertificateFlaw::Expired(leaf.not_after),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            CertificateFlaw::NotYetValid(leaf.not_before)
        }
        _ if leaf.is_self_issued => CertificateFlaw::SelfSigned,
        // `BadSignature` comes from an authority that only shares the name of a trusted one.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => CertificateFlaw::UnknownIssuer,
        _ => CertificateFlaw::Unverified,
    }
}

/// Returns whether a certificate with this DNS name is valid for `domain`. A wildcard matches one label.
fn is_for(name: &str, domain: &Hostname) -> bool {
    let is_wildcard_of =
        |parent: &str| domain.as_str().split_once('.').is_some_and(|(_, own)| own.eq_ignore_ascii_case(parent));
    name.eq_ignore_ascii_case(domain.as_str()) || name.strip_prefix("*.").is_some_and(is_wildcard_of)
}

/// A clock with a fixed time, so that observation and verdict are of the same instant.
#[derive(Debug)]
struct FixedTime(Timestamp);

impl TimeProvider for FixedTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_millis(self.0.unix_millis())))
    }
}

/// Completes the handshake with any certificate, and records it with the verifier's verdict. The server must still
/// prove possession of the key.
struct RecordingVerifier {
    judge: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    seen: Mutex<Option<(CertificateDer<'static>, Result<(), TlsError>)>>,
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let verdict = match &self.judge {
            Some(judge) => judge.verify_server_cert(leaf, intermediates, name, ocsp_response, now).map(drop),
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((leaf.clone().into_owned(), verdict));
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Debug for RecordingVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Witness").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn only_addresses_of_the_internet_are_connected_to() {
        let private = ["127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "169.254.169.254", "fd00::1"];
        for address in private {
            let error = permitted(&addresses(&[address]), false).unwrap_err();
            assert!(matches!(error, ProbeError::Private(_)), "{address}");
            let mixed = addresses(&[address, "1.1.1.1", "2606:4700::1111"]);
            assert_eq!(permitted(&mixed, false).unwrap(), mixed[1..], "{address}");
        }
        assert_eq!(permitted(&addresses(&private), true).unwrap(), addresses(&private));
        for allow_private in [false, true] {
            assert!(matches!(permitted(&[], allow_private), Err(ProbeError::NoAddress)));
        }
    }

    #[test]
    fn a_certificate_for_another_name_says_for_which_before_anything_else() {
        let at = Timestamp::from_unix_millis(1_800_000_000_000);
        let flaw_of = |names: &[&str], error: CertificateError| {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            let leaf = PresentedCertificate {
                issuer: "CA".into(),
                subject: None,
                names,
                not_before: at,
                not_after: at,
                is_self_issued: true,
            };
            flaw(&error.into(), &leaf, &"www.example.com".parse().unwrap())
        };
        for names in [&["a.example"][..], &["example.com", "x.www.example.com"], &["*.com"], &[]] {
            let said = flaw_of(names, CertificateError::UnknownIssuer).to_string();
            let shown = names.first().unwrap_or(&"no name");
            assert!(said.contains(&format!("is for {shown}, and not for www.example.com")), "{said}");
        }
        for names in [["WWW.example.com"], ["*.example.com"]] {
            assert_eq!(flaw_of(&names, CertificateError::UnknownIssuer), CertificateFlaw::SelfSigned);
        }
    }

    #[test]
    fn days_are_counted_in_whole_ones_from_the_instant_that_is_shown() {
        let at = Timestamp::from_unix_millis(1_800_000_000_000);
        let shown = |not_after: Timestamp| {
            let leaf = PresentedCertificate {
                issuer: "CA".into(),
                subject: None,
                names: vec!["a.example".into(), "b.example".into()],
                not_before: at,
                not_after,
                is_self_issued: false,
            };
            ProbedCertificate { leaf, at, flaw: None }
        };
        let day = Duration::from_hours(24);
        let minute = Duration::from_mins(1);
        for (not_after, days) in [
            (at + day * 45, 45),
            (at + day * 45 - minute, 44),
            (at + minute, 0),
            (at - minute, -1),
            (at - day - minute, -2),
        ] {
            assert_eq!(shown(not_after).days_remaining(), days, "{not_after}");
        }
        let subject = |domain: &str| shown(at).subject(&domain.parse().unwrap());
        assert_eq!(subject("b.example").as_deref(), Some("b.example"));
        assert_eq!(subject("c.example").as_deref(), Some("a.example"));
    }
}
