//! Checks that edges present the stored certificates, by a handshake with each address that domains point to.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use config::Config;
use db::certificates::{self, ListedCertificate};
use domain::{CertificateId, Clock, Timestamp, certificates::CertificateSource, hostname::is_within};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _};
use sqlx::PgPool;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use super::{DoctorFinding, failed};

const WITHIN: Duration = Duration::from_secs(5);
const ADDRESSES: usize = 16;
/// The limit of certificates checked at each address: those that expire first, or were renewed for that reason.
const CERTIFICATES: i64 = 16;
/// Replaces the `*` of a wildcard.
const LABEL: &str = "svc-doctor";

/// A name, and the certificate that should be presented for it.
struct ExpectedCertificate {
    name: String,
    id: CertificateId,
    leaf: CertificateDer<'static>,
}

pub(super) async fn check(config: &Config, db: &PgPool) -> DoctorFinding {
    let wanted = match expected_certificates(db, Clock::system().now()).await {
        Ok(wanted) if wanted.is_empty() => return Ok("nothing to show: no certificate is stored".to_owned()),
        Ok(wanted) => wanted,
        Err(error) => return failed(error.to_string(), "see `database`"),
    };
    let addresses = addresses(config).await;
    let target = config.site.addresses().dns_target().to_owned();
    if addresses.is_empty() {
        return Ok(format!("not looked at: {target} has no address as seen from here, and edges announce none"));
    }
    let (port, mut flaws) = (config.acme.probe_port, Vec::new());
    for address in &addresses {
        for ExpectedCertificate { name, id, leaf } in &wanted {
            match timeout(WITHIN, presented_certificate(*address, port, name)).await {
                Ok(Ok(shown)) if shown == *leaf => {}
                Ok(Ok(_)) => flaws.push(format!("{address} shows another certificate of {name} than {id}")),
                Ok(Err(error)) => flaws.push(format!("{address} shows no certificate of {name} ({error})")),
                Err(_) => {
                    flaws.push(format!("{address} does not answer on port {port} within {} s", WITHIN.as_secs()));
                    break;
                }
            }
        }
    }
    let (first, more) = match flaws.as_slice() {
        [] => {
            let list = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Ok(format!("{list} (of {target}): {} names with the stored certificates", wanted.len()));
        }
        [first, more @ ..] => (first, more.len()),
    };
    let more = if more == 0 { String::new() } else { format!(", and {more} more") };
    failed(
        format!("{first}{more}"),
        "does an edge run there that reaches Postgres and Redis, and does nothing else answer at that address? An \
         edge that is restarted reads everything anew",
    )
}

/// Returns the names of stored certificates, each with the certificate that edges should present.
async fn expected_certificates(db: &PgPool, now: Timestamp) -> Result<Vec<ExpectedCertificate>, sqlx::Error> {
    let valid = ListedCertificate {
        id: CertificateId::new(now),
        names: Vec::new(),
        chain_pem: String::new(),
        not_before: now,
        not_after: now,
        source: CertificateSource::Import,
        account_url: None,
        is_replaced: false,
    };
    let stored = certificates::list(db, Some(&valid), CERTIFICATES).await?;
    let names: BTreeSet<String> =
        stored.into_iter().filter_map(|listed| Some(listed.names.first()?.replace('*', LABEL))).collect();
    let mut wanted = Vec::new();
    for name in names {
        let covering = [Some(name.clone()), name.split_once('.').map(|(_, parent)| format!("*.{parent}"))];
        let covering: Vec<String> = covering.into_iter().flatten().collect();
        let Some(certificate) = certificates::find_covering(db, &covering, now).await? else { continue };
        if let Ok(leaf) = CertificateDer::from_pem_slice(certificate.chain_pem.as_bytes()) {
            wanted.push(ExpectedCertificate { name, id: certificate.id, leaf });
        }
    }
    Ok(wanted)
}

async fn addresses(config: &Config) -> BTreeSet<IpAddr> {
    let target = config.site.addresses().dns_target().to_owned();
    if is_within(&target, "localhost") {
        return [Ipv4Addr::LOCALHOST.into()].into();
    }
    let looked_up = timeout(WITHIN, tokio::net::lookup_host((target.as_str(), config.acme.probe_port))).await;
    let found = looked_up.ok().and_then(Result::ok).into_iter().flatten().map(|address| address.ip());
    config.site.apex_addresses.iter().copied().chain(found).take(ADDRESSES).collect()
}

/// Returns the certificate that an address presents for `name`, trusted or not.
async fn presented_certificate(address: IpAddr, port: u16, name: &str) -> anyhow::Result<CertificateDer<'static>> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
        .with_no_client_auth();
    let stream = TcpStream::connect((address, port)).await?;
    let stream = TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(name.to_owned())?, stream).await?;
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    Ok(shown.ok_or_else(|| anyhow::anyhow!("the handshake shows none"))?.clone().into_owned())
}

/// Accepts any certificate whose key the peer proves to have: it is compared to the stored one afterwards.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
