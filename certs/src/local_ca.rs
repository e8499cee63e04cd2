//! A certificate authority for one installation. Its root is kept in a folder and has to be trusted by hand (or by
//! `svc` itself); its leaf is stored like any other certificate.

use std::{
    collections::BTreeSet,
    io,
    net::Ipv6Addr,
    path::{Path, PathBuf},
    time::Duration,
};

use db::certificates::{self, NewCertificate};
use domain::{Timestamp, certificates::CertificateSource, hostname};
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use secrets::MasterKey;
use sqlx::PgPool;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::{chain::dns_name, private_file};

const CERTIFICATE_FILE: &str = "ca.pem";
const KEY_FILE: &str = "ca.key";
const DAY: Duration = Duration::from_hours(24);
/// The lifetime of an authority: ten years, because trusting it by hand again is tedious.
const CA_LIFE: Duration = Duration::from_hours(24 * 3_650);
/// The lifetime of a leaf. Browsers accept 398 days at most.
const LEAF_LIFE: Duration = Duration::from_hours(24 * 397);

/// The reason there is no local authority, or no leaf signed by it.
#[derive(Debug, thiserror::Error)]
pub enum LocalCaError {
    /// A file of the authority cannot be read or written.
    #[error("cannot use {path}: {source}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// Only one of the authority's two files exists.
    #[error("{0} is missing although the authority's other file is there; restore it, or remove both to start anew")]
    Half(PathBuf),
    /// The domains have changed since the authority was created.
    #[error("the authority in {0} is not good for {1}; remove its ca.pem and ca.key, and trust the new one")]
    OtherDomains(PathBuf, String),
    /// The text is not a hostname.
    #[error("{0:?} is not a hostname; give names such as www.shop.localhost, without https:// and without a port")]
    NoHostname(String),
    /// A name given by hand is outside the authority's name constraints.
    #[error(
        "the authority in {folder} signs names under {permitted} only, so that whoever steals its key can forge no \
         others. Choose a name under one of them, or bring a certificate for {name} with `certs import`"
    )]
    OutOfReach {
        /// The authority's folder.
        folder: PathBuf,
        /// The given name.
        name: String,
        /// The domains that the authority may sign for.
        permitted: String,
    },
    /// Creating or parsing a certificate failed.
    #[error("certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The leaf could not be stored.
    #[error("the database does not answer: {0}")]
    Database(#[from] sqlx::Error),
}

/// Returns the file of the authority's own certificate, which others have to trust.
pub fn root_file(folder: &Path) -> PathBuf {
    folder.join(CERTIFICATE_FILE)
}

/// The outcome of [`renew`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewOutcome {
    /// The stored leaf was kept: more than a third of its lifetime is left.
    Kept,
    /// A new leaf was stored.
    Issued,
}

/// A certificate authority kept in a folder.
pub struct LocalCa {
    certificate_pem: String,
    key: KeyPair,
}

/// Returns the DNS names that an installation with this configuration needs a certificate for.
pub fn names(site: &config::Site) -> Vec<String> {
    let urls = [&site.base_url, &site.ai_url, &site.console_url];
    let hosts = urls.into_iter().filter_map(|url| url.host_str()).map(str::to_ascii_lowercase);
    let mut names: Vec<String> = [&site.site_domain, &site.share_domain]
        .into_iter()
        .flat_map(|domain| [domain.clone(), format!("*.{domain}")])
        .chain(hosts)
        .chain(["localhost".to_owned()])
        .collect();
    names.sort();
    names.dedup();
    // A wildcard already covers its children.
    let wildcards: Vec<String> = names.iter().filter_map(|name| name.strip_prefix("*.").map(str::to_owned)).collect();
    names.retain(|name| {
        name.starts_with("*.") || !name.split_once('.').is_some_and(|(_, parent)| wildcards.iter().any(|w| w == parent))
    });
    names
}

/// Parses hostnames given by hand into the form in which edges look them up.
pub fn hostnames(given: &[String]) -> Result<Vec<String>, LocalCaError> {
    given.iter().map(|name| dns_name(name).ok_or_else(|| LocalCaError::NoHostname(name.clone()))).collect()
}

/// Stores a new leaf for `names`, unless the stored one has more than a third of its lifetime left.
pub async fn renew(
    db: &PgPool,
    master_key: &MasterKey,
    ca: &LocalCa,
    names: &[String],
    now: Timestamp,
) -> Result<RenewOutcome, LocalCaError> {
    if let Some(stored) = certificates::find_covering(db, names, now).await? {
        let mut covered = stored.names.clone();
        covered.sort();
        let left = stored.not_after.since(now);
        let is_ours = stored.chain_pem.ends_with(&ca.certificate_pem);
        if is_ours && covered == names && left > LEAF_LIFE / 3 && stored.open_key(master_key).is_ok() {
            return Ok(RenewOutcome::Kept);
        }
    }
    let leaf = ca.issue(names, now)?;
    let certificate = NewCertificate {
        names,
        chain_pem: &leaf.chain_pem,
        key_pem: &leaf.key_pem,
        not_before: leaf.not_before,
        not_after: leaf.not_after,
        source: CertificateSource::Local,
        account: None,
    };
    let mut tx = db.begin().await?;
    certificates::store(&mut tx, master_key, &certificate, now).await?;
    tx.commit().await?;
    Ok(RenewOutcome::Issued)
}

/// A leaf certificate with its private key.
pub struct LeafCertificate {
    /// The chain as PEM: the leaf, then the authority.
    pub chain_pem: String,
    /// The private key as PEM, in PKCS #8.
    pub key_pem: String,
    /// The start of the leaf's validity.
    pub not_before: Timestamp,
    /// The end of the leaf's validity.
    pub not_after: Timestamp,
}

impl LocalCa {
    /// Opens the authority in `folder`, or creates one that is valid only for the domains of `names` and `extra`.
    pub fn open_or_create(
        folder: &Path,
        names: &[String],
        extra: &[String],
        now: Timestamp,
    ) -> Result<Self, LocalCaError> {
        let (certificate, key) = (root_file(folder), folder.join(KEY_FILE));
        match (certificate.exists(), key.exists()) {
            (true, true) => {
                let ca = Self::read(folder)?;
                let permitted = ca.permitted();
                if let Some(domain) = domains(names).find(|domain| !permitted.iter().any(|own| own == domain)) {
                    return Err(LocalCaError::OtherDomains(folder.to_path_buf(), domain.to_owned()));
                }
                ca.ensure_permits(folder, extra)
            }
            (false, false) => {
                let ca = Self::generate(&[names, extra].concat(), now)?;
                std::fs::create_dir_all(folder).map_err(file_error(folder))?;
                private_file::create(&key, &ca.key.serialize_pem()).map_err(file_error(&key))?;
                std::fs::write(&certificate, &ca.certificate_pem).map_err(file_error(&certificate))?;
                Ok(ca)
            }
            (true, false) => Err(LocalCaError::Half(key)),
            (false, true) => Err(LocalCaError::Half(certificate)),
        }
    }

    /// Opens the authority in `folder`, which must be valid for `names`.
    pub fn open(folder: &Path, names: &[String]) -> Result<Self, LocalCaError> {
        Self::read(folder)?.ensure_permits(folder, names)
    }

    fn read(folder: &Path) -> Result<Self, LocalCaError> {
        let (certificate, key) = (folder.join(CERTIFICATE_FILE), folder.join(KEY_FILE));
        let certificate_pem = std::fs::read_to_string(&certificate).map_err(file_error(&certificate))?;
        let key = KeyPair::from_pem(&std::fs::read_to_string(&key).map_err(file_error(&key))?)?;
        Ok(Self { certificate_pem, key })
    }

    fn ensure_permits(self, folder: &Path, names: &[String]) -> Result<Self, LocalCaError> {
        let permitted = self.permitted();
        match domains(names).find(|name| !permitted.iter().any(|domain| hostname::is_within(name, domain))) {
            Some(name) => Err(LocalCaError::OutOfReach {
                folder: folder.to_path_buf(),
                name: name.to_owned(),
                permitted: permitted.join(", "),
            }),
            None => Ok(self),
        }
    }

    /// Creates an authority whose name constraints permit the domains of `names`.
    pub fn generate(names: &[String], now: Timestamp) -> Result<Self, LocalCaError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name("svc local CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        // Only servers, not mail, programs or people.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // A stolen key can forge names of this installation, but not those of a bank. A kind of name without any
        // permitted entry is not constrained at all, so the list also permits the machine's own addresses, and
        // mailboxes of a domain that nobody can own (RFC 6761).
        let domains: BTreeSet<&str> = domains(names).collect();
        let beside = [
            GeneralSubtree::IpAddress(CidrSubnet::from_v4_prefix([127, 0, 0, 0], 8)),
            GeneralSubtree::IpAddress(CidrSubnet::from_v6_prefix(Ipv6Addr::LOCALHOST.octets(), 128)),
            GeneralSubtree::Rfc822Name("invalid".to_owned()),
        ];
        let domains = domains.into_iter().map(|domain| GeneralSubtree::DnsName(domain.to_owned()));
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: domains.chain(beside).collect(),
            excluded_subtrees: Vec::new(),
        });
        params.not_before = (now - DAY).as_datetime();
        params.not_after = (now + CA_LIFE).as_datetime();
        let certificate_pem = params.self_signed(&key)?.pem();
        Ok(Self { certificate_pem, key })
    }

    /// Signs a leaf for `names`.
    pub fn issue(&self, names: &[String], now: Timestamp) -> Result<LeafCertificate, LocalCaError> {
        let issuer = Issuer::from_ca_cert_pem(&self.certificate_pem, &self.key)?;
        let key = KeyPair::generate()?;
        let (not_before, not_after) = (now - DAY, now + LEAF_LIFE - DAY);
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = distinguished_name("svc");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = not_before.as_datetime();
        params.not_after = not_after.as_datetime();
        let leaf = params.signed_by(&key, &issuer)?;
        Ok(LeafCertificate {
            chain_pem: format!("{}{}", leaf.pem(), self.certificate_pem),
            key_pem: key.serialize_pem(),
            not_before,
            not_after,
        })
    }

    fn permitted(&self) -> Vec<String> {
        let Ok(der) = CertificateDer::from_pem_slice(self.certificate_pem.as_bytes()) else { return Vec::new() };
        let Ok((_, certificate)) = X509Certificate::from_der(&der) else { return Vec::new() };
        let constraints = certificate.name_constraints().ok().flatten();
        let subtrees = constraints.and_then(|extension| extension.value.permitted_subtrees.as_ref());
        let domain = |base: &GeneralName<'_>| match base {
            GeneralName::DNSName(domain) => Some((*domain).to_owned()),
            _ => None,
        };
        subtrees.into_iter().flatten().filter_map(|subtree| domain(&subtree.base)).collect()
    }

    /// Returns the root certificate as PEM, for everyone who has to trust it.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }
}

fn domains(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().map(|name| name.trim_start_matches("*."))
}

fn distinguished_name(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> LocalCaError {
    let path = path.to_path_buf();
    move |source| LocalCaError::File { path, source }
}

#[cfg(test)]
mod tests {
    use rcgen::SanType;

    use super::*;

    #[test]
    fn names_are_the_installation_s_without_repetition() {
        let names = names(&config::Site::default());
        assert_eq!(names, ["*.share.localhost", "*.svc.localhost", "localhost", "share.localhost", "svc.localhost"]);
    }

    #[test]
    fn names_given_by_hand_are_hostnames() {
        let given = |name: &str| hostnames(&[name.to_owned()]);
        assert_eq!(given("WWW.Shop.localhost").unwrap(), ["www.shop.localhost"]);
        for bad in ["https://shop.localhost", "shop.localhost:8443", "", "a b", "a..b", "-a.localhost"] {
            assert!(matches!(given(bad), Err(LocalCaError::NoHostname(_))), "{bad}");
        }
    }

    /// Lets `openssl` verify a leaf with these names for this purpose. Returns its objections.
    fn judge(ca: &LocalCa, names: &[SanType], usage: ExtendedKeyUsagePurpose, purpose: &str) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let issuer = Issuer::from_ca_cert_pem(&ca.certificate_pem, &ca.key).unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.to_vec();
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        let (root, leaf_file) = (folder.path().join("root.pem"), folder.path().join("leaf.pem"));
        std::fs::write(&root, &ca.certificate_pem).unwrap();
        std::fs::write(&leaf_file, leaf.pem()).unwrap();
        let mut openssl = std::process::Command::new("openssl");
        openssl.args(["verify", "-attime", "1800000000", "-purpose", purpose, "-CAfile"]).arg(&root).arg(&leaf_file);
        let output = openssl.output().unwrap();
        let said = || String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(said()) }
    }

    #[test]
    fn the_key_signs_servers_of_this_installation_alone() {
        let now = Timestamp::from_unix_millis(1_800_000_000_000);
        let ca = LocalCa::generate(&["*.a.localhost".to_owned(), "a.localhost".to_owned()], now).unwrap();
        let name = |name: &str| SanType::DnsName(name.try_into().unwrap());
        let mailbox = |name: &str| SanType::Rfc822Name(name.try_into().unwrap());
        let address = |address: &str| SanType::IpAddress(address.parse().unwrap());
        let server = |names: &[SanType]| judge(&ca, names, ExtendedKeyUsagePurpose::ServerAuth, "sslserver");
        for good in [name("a.localhost"), name("www.a.localhost"), address("127.0.0.1"), address("::1")] {
            assert_eq!(server(std::slice::from_ref(&good)), Ok(()), "{good:?}");
        }
        for bad in [
            name("bank.example"),
            address("1.1.1.1"),
            address("10.0.0.1"),
            address("2606:4700::1111"),
            address("::ffff:1.1.1.1"),
            mailbox("a@bank.example"),
            mailbox("a@a.localhost"),
        ] {
            assert!(server(std::slice::from_ref(&bad)).is_err(), "{bad:?}");
            assert!(server(&[name("a.localhost"), bad]).is_err(), "beside a good one");
        }
        let mail = judge(&ca, &[name("a.localhost")], ExtendedKeyUsagePurpose::EmailProtection, "smimesign");
        let client = judge(&ca, &[name("a.localhost")], ExtendedKeyUsagePurpose::ClientAuth, "sslclient");
        assert!(mail.is_err() && client.is_err());
    }

    #[test]
    fn a_folder_keeps_its_authority() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["a.localhost".to_owned()];
        let now = Timestamp::from_unix_millis(1_800_000_000_000);
        let first = LocalCa::open_or_create(folder.path(), &names, &[], now).unwrap();
        let again = LocalCa::open_or_create(folder.path(), &names, &[], now).unwrap();
        assert_eq!(first.certificate_pem(), again.certificate_pem());
        let leaf = again.issue(&names, now).unwrap();
        assert!(leaf.chain_pem.ends_with(first.certificate_pem()));
        assert!(leaf.not_after.since(leaf.not_before) <= LEAF_LIFE);
        let other = LocalCa::open_or_create(folder.path(), &["b.example".to_owned()], &[], now);
        assert!(matches!(other, Err(LocalCaError::OtherDomains(..))));
        let extra = |name: &str| LocalCa::open_or_create(folder.path(), &names, &[name.to_owned()], now);
        assert!(extra("www.a.localhost").is_ok());
        for beyond in ["b.localhost", "xa.localhost", "localhost", "www.example.test"] {
            let message = extra(beyond).err().unwrap().to_string();
            assert!(message.contains("names under a.localhost only") && message.contains(beyond), "{message}");
        }
        std::fs::remove_file(folder.path().join(KEY_FILE)).unwrap();
        assert!(matches!(LocalCa::open_or_create(folder.path(), &names, &[], now), Err(LocalCaError::Half(_))));
    }
}
