//! Validates a certificate chain and its key as an operator provides them, by what edges and browsers require. No IO.
//!
//! The stored form is written from the parsed contents, so that anything else in a file (such as a key) is not stored.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::Timestamp;
use rustls::{Error as TlsError, InconsistentKeys, crypto::aws_lc_rs, sign::CertifiedKey};
use rustls_pki_types::{CertificateDer, DnsName, PrivateKeyDer, pem::PemObject as _};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate, X509Name};

/// The limit of certificates in a chain: more than any authority issues.
const CHAIN_LENGTH: usize = 10;
/// The limit of names in a certificate: ten times what public authorities allow.
const NAMES: usize = 1_000;
/// A certificate with fewer days left gets a note.
const SOON_DAYS: u64 = 14;
const PEM_LINE: usize = 64;
/// The limit of displayed characters of a name: a stranger's certificate may have as many as a handshake can carry.
const SHOWN_NAME: usize = 200;

/// A certificate chain and its private key that passed every check of [`CertificateChain::judge`].
#[derive(Clone)]
pub struct CertificateChain {
    /// The DNS names that it covers, wildcards as `*.name`: lower case, sorted.
    pub names: Vec<String>,
    /// The certificates as PEM, the leaf first.
    pub chain_pem: String,
    /// The private key as PEM.
    pub key_pem: String,
    /// The leaf's issuer: its common name and organization.
    pub issuer: String,
    /// The start of the leaf's validity.
    pub not_before: Timestamp,
    /// The end of the leaf's validity.
    pub not_after: Timestamp,
    /// Findings that the operator should know but that are no reason for a refusal.
    pub notes: Vec<ChainNote>,
}

/// The reason a chain or its key was refused. The text is written for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// The chain's file contains no certificate.
    #[error(
        "there is no certificate in the chain's file; it must be PEM, with -----BEGIN CERTIFICATE----- lines \
         (openssl x509 -inform der turns DER into it)"
    )]
    NoCertificate,
    /// The PEM of the named file cannot be decoded.
    #[error("the PEM of the {0} is damaged; copy the file again")]
    Pem(&'static str),
    /// The chain has too many certificates.
    #[error("the chain has more than {CHAIN_LENGTH} certificates; only the leaf and its intermediates belong into it")]
    TooLong,
    /// The certificate at this position, counted from 1, is not an X.509 certificate.
    #[error("certificate {0} of the chain cannot be read")]
    Unreadable(usize),
    /// The key's file contains no private key.
    #[error("there is no private key in the key's file; it must be PEM, with a -----BEGIN PRIVATE KEY----- line")]
    NoKey,
    /// The key is encrypted with a passphrase.
    #[error("the key is protected by a passphrase, which nobody could type at every start; openssl pkey takes it off")]
    EncryptedKey,
    /// The key has a type or size that edges cannot use.
    #[error(
        "edges cannot use this kind of key; RSA of 2048 to 8192 bits, ECDSA (P-256, P-384, P-521) and Ed25519 work"
    )]
    UnusableKey,
    /// The key does not belong to the leaf; it may belong to the certificate at this position, counted from 1.
    #[error("the key does not belong to the first certificate of the chain{}", elsewhere(*.0))]
    OtherKey(Option<usize>),
    /// The certificate at this position, counted from 1, was not issued by the next one.
    #[error(
        "certificate {0} of the chain was not issued by certificate {next}; the order is the leaf, then who issued it, \
         and so on (authorities call that file fullchain.pem)", next = .0 + 1
    )]
    Order(usize),
    /// The leaf's validity has ended.
    #[error("the certificate was valid until {0}; renew it and import the new one")]
    Expired(Timestamp),
    /// The leaf's validity has not begun.
    #[error("the certificate is valid from {0} on; import it then (or see whether this machine's clock is right)")]
    NotYet(Timestamp),
    /// The first certificate belongs to a certificate authority.
    #[error(
        "the first certificate is an authority's (CA:TRUE), which visitors do not accept for a website; the leaf comes \
         first (for a self-signed one: openssl req -x509 -addext basicConstraints=critical,CA:FALSE)"
    )]
    Authority,
    /// The leaf's extended key usage does not allow servers.
    #[error("the certificate is not meant for servers (its extended key usage lacks serverAuth)")]
    NotForServers,
    /// The leaf has no DNS name among its subject alternative names.
    #[error("the certificate names no hostname among its subject alternative names, and visitors look at no others")]
    NoNames,
    /// The leaf has too many names.
    #[error("the certificate has more than {NAMES} names")]
    TooManyNames,
}

fn elsewhere(position: Option<usize>) -> String {
    position.map_or_else(String::new, |at| format!(", but to certificate {at}; the chain must begin with that one"))
}

/// A finding about a chain that is no reason to refuse it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainNote {
    /// The certificate is its own issuer.
    SelfSigned,
    /// The chain consists of the leaf only.
    NoIntermediate,
    /// The certificate expires in this many days.
    EndsSoon(u64),
    /// This name of the certificate is not a hostname and was left out.
    LeftOut(String),
}

impl fmt::Display for ChainNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SelfSigned => f.write_str("it is signed by itself: visitors are warned unless they trust it by hand"),
            Self::NoIntermediate => {
                f.write_str("the chain is the leaf alone; with a public authority import its fullchain.pem instead")
            }
            Self::EndsSoon(days) => write!(f, "it ends in {days} days"),
            Self::LeftOut(name) => write!(f, "its name {name:?} is no hostname, and was left out"),
        }
    }
}

impl CertificateChain {
    /// Parses and validates the PEM of a chain and of its key.
    pub fn judge(chain: &[u8], key: &[u8], now: Timestamp) -> Result<Self, ChainError> {
        let chain = certificates(chain)?;
        let parsed = (1..).zip(&chain).map(|(at, der)| parse(der).ok_or(ChainError::Unreadable(at)));
        let parsed: Vec<_> = parsed.collect::<Result<_, _>>()?;
        let leaf = parsed.first().ok_or(ChainError::NoCertificate)?;
        let key = private_key(key)?;
        // First, because the key tells which certificate was meant to be the first.
        matching(&chain, &key)?;
        in_order(&parsed)?;
        let (not_before, not_after) = (leaf.validity().not_before, leaf.validity().not_after);
        let (not_before, not_after) = (Timestamp::from(not_before.to_datetime()), not_after.to_datetime().into());
        if not_after <= now {
            return Err(ChainError::Expired(not_after));
        }
        if not_before > now {
            return Err(ChainError::NotYet(not_before));
        }
        if leaf.is_ca() {
            return Err(ChainError::Authority);
        }
        if !is_for_servers(leaf) {
            return Err(ChainError::NotForServers);
        }
        let (names, mut notes) = names(leaf)?;
        if leaf.issuer() == leaf.subject() {
            notes.push(ChainNote::SelfSigned);
        } else if parsed.len() == 1 {
            notes.push(ChainNote::NoIntermediate);
        }
        let days = days_left(not_after, now);
        if days < SOON_DAYS {
            notes.push(ChainNote::EndsSoon(days));
        }
        Ok(Self {
            names,
            chain_pem: chain.iter().map(|der| pem("CERTIFICATE", der)).collect(),
            key_pem: key_pem(&key),
            issuer: display_name(leaf.issuer()),
            not_before,
            not_after,
            notes,
        })
    }
}

/// Returns the number of whole days from `now` until `end`.
pub fn days_left(end: Timestamp, now: Timestamp) -> u64 {
    end.since(now).as_secs() / (24 * 60 * 60)
}

/// Returns the issuer of a stored chain's leaf, or `None` if the chain cannot be parsed.
pub fn chain_issuer(chain_pem: &str) -> Option<String> {
    let der = CertificateDer::from_pem_slice(chain_pem.as_bytes()).ok()?;
    parse(&der).map(|leaf| display_name(leaf.issuer()))
}

/// The displayable parts of a certificate presented by a server, without validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentedCertificate {
    /// The issuer.
    pub issuer: String,
    /// The subject; `None` if it is empty, as authorities leave it today.
    pub subject: Option<String>,
    /// The DNS names, in their order.
    pub names: Vec<String>,
    /// The start of the validity.
    pub not_before: Timestamp,
    /// The end of the validity.
    pub not_after: Timestamp,
    /// Whether it names itself as its issuer.
    pub is_self_issued: bool,
}

impl PresentedCertificate {
    /// Parses a certificate. Returns `None` if it is not an X.509 certificate.
    pub fn read(der: &[u8]) -> Option<Self> {
        let leaf = parse(der)?;
        let validity = leaf.validity();
        let alternative = leaf.subject_alternative_name().ok().flatten();
        let names = alternative.iter().flat_map(|extension| &extension.value.general_names);
        let names = names.filter_map(|name| match name {
            GeneralName::DNSName(name) => dns_name(name),
            _ => None,
        });
        let shown = |name: &X509Name<'_>| display_name(name).chars().take(SHOWN_NAME).collect();
        Some(Self {
            issuer: shown(leaf.issuer()),
            subject: leaf.subject().iter().next().map(|_| shown(leaf.subject())),
            names: names.take(NAMES).collect(),
            not_before: validity.not_before.to_datetime().into(),
            not_after: validity.not_after.to_datetime().into(),
            is_self_issued: leaf.issuer() == leaf.subject(),
        })
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ChainError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .take(CHAIN_LENGTH + 1)
        .collect::<Result<_, _>>()
        .map_err(|_| ChainError::Pem("chain"))?;
    match chain.len() {
        0 => Err(ChainError::NoCertificate),
        1..=CHAIN_LENGTH => Ok(chain),
        _ => Err(ChainError::TooLong),
    }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, ChainError> {
    let text = String::from_utf8_lossy(pem);
    let is_encrypted = ["ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"].iter().any(|mark| text.contains(mark));
    match PrivateKeyDer::from_pem_slice(pem) {
        _ if is_encrypted => Err(ChainError::EncryptedKey),
        Ok(key) => Ok(key),
        Err(rustls_pki_types::pem::Error::NoItemsFound) => Err(ChainError::NoKey),
        Err(_) => Err(ChainError::Pem("key")),
    }
}

fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    rest.is_empty().then_some(certificate)
}

/// Checks that the key can sign as edges require, and that it belongs to the leaf.
fn matching(chain: &[CertificateDer<'static>], key: &PrivateKeyDer<'static>) -> Result<(), ChainError> {
    let provider = aws_lc_rs::default_provider();
    let signing = provider.key_provider.load_private_key(key.clone_key()).map_err(|_| ChainError::UnusableKey)?;
    let is_of = |certificate: &CertificateDer<'static>| {
        CertifiedKey::new(vec![certificate.clone()], signing.clone()).keys_match()
    };
    let mut certificates = chain.iter();
    match certificates.next().map(is_of) {
        Some(Ok(())) => Ok(()),
        Some(Err(TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch))) => {
            let other = certificates.position(|certificate| is_of(certificate).is_ok());
            Err(ChainError::OtherKey(other.map(|after_first| after_first + 2)))
        }
        Some(Err(_)) => Err(ChainError::Unreadable(1)),
        None => Err(ChainError::NoCertificate),
    }
}

fn in_order(chain: &[X509Certificate<'_>]) -> Result<(), ChainError> {
    let mut pairs = (1..).zip(chain.windows(2));
    let broken = pairs.find(|(_, pair)| {
        pair[0].issuer() != pair[1].subject() || pair[0].verify_signature(Some(pair[1].public_key())).is_err()
    });
    broken.map_or(Ok(()), |(at, _)| Err(ChainError::Order(at)))
}

fn is_for_servers(leaf: &X509Certificate<'_>) -> bool {
    // Without the extension, every use is allowed.
    leaf.extended_key_usage().is_ok_and(|usage| usage.is_none_or(|usage| usage.value.any || usage.value.server_auth))
}

fn names(leaf: &X509Certificate<'_>) -> Result<(Vec<String>, Vec<ChainNote>), ChainError> {
    let alternative = leaf.subject_alternative_name().map_err(|_| ChainError::Unreadable(1))?;
    let (mut names, mut notes) = (Vec::new(), Vec::new());
    for name in alternative.iter().flat_map(|extension| &extension.value.general_names) {
        if let GeneralName::DNSName(name) = name {
            match dns_name(name) {
                Some(name) => names.push(name),
                None => notes.push(ChainNote::LeftOut((*name).to_owned())),
            }
        }
    }
    names.sort();
    names.dedup();
    match names.len() {
        0 => Err(ChainError::NoNames),
        1..=NAMES => Ok((names, notes)),
        _ => Err(ChainError::TooManyNames),
    }
}

/// Returns the form of a name in which edges look it up, or `None` if no visitor can request it.
pub(crate) fn dns_name(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let host = name.strip_prefix("*.").unwrap_or(&name);
    DnsName::try_from(host).is_ok().then_some(name)
}

/// Returns an authority's common name and organization.
fn display_name(name: &X509Name<'_>) -> String {
    let mut common = name.iter_common_name().filter_map(|part| part.as_str().ok());
    let mut organization = name.iter_organization().filter_map(|part| part.as_str().ok());
    let called = match (common.next(), organization.next()) {
        (Some(common), Some(organization)) => format!("{common} ({organization})"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => name.to_string(),
    };
    // A stranger wrote the name, and it may be shown in a terminal.
    called.chars().filter(|&character| !domain::line::is_hidden(character)).collect()
}

fn key_pem(key: &PrivateKeyDer<'_>) -> String {
    let label = match key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    pem(label, key.secret_der())
}

fn pem(label: &str, der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let lines = (0..encoded.len()).step_by(PEM_LINE).map(|at| &encoded[at..encoded.len().min(at + PEM_LINE)]);
    let lines: String = lines.flat_map(|line| [line, "\n"]).collect();
    format!("-----BEGIN {label}-----\n{lines}-----END {label}-----\n")
}

#[cfg(test)]
mod tests;
