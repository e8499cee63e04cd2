//! `[acme]`: where certificates come from.

use std::{fmt, net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};
use url::Url;

use super::url;

/// `[acme]`: where certificates come from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Acme {
    /// The issuer: an ACME authority (`acme`), this installation's own (`local`), or none (`none`, the default).
    pub issuer: CertificateIssuer,
    /// The directory URL of the ACME authority; Let's Encrypt's by default.
    pub directory_url: Url,
    /// An address at which the authority may contact us about our certificates.
    pub contact: Option<String>,
    /// A PEM file with the only root that is trusted for the authority's own TLS; the public roots when absent.
    pub ca_file: Option<PathBuf>,
    /// The key that binds our account to an existing account at the authority, as JSON or a table: `{key_id,
    /// hmac_key}`, with `hmac_key` in base64url (RFC 8555, 7.3.4).
    pub external_account: Option<ExternalAccount>,
    /// The certificate profile to request if the directory offers it; none when empty.
    pub profile: String,
    /// The challenges that may be used, in order of preference. A wildcard can only use `dns-01`.
    pub challenges: Vec<ChallengeType>,
    /// How records for `dns-01` are written. A table; in the environment as JSON.
    pub dns: DnsChallengeConfig,
    /// The resolvers that are used to look up domains, as `address:port`; the system's when empty.
    pub resolvers: Vec<String>,
    /// The rate limits that orders stay below: those that Let's Encrypt publishes (`public`), none (`none`), or the
    /// published ones for authorities on the internet only (`auto`, the default).
    pub limits: OrderLimits,
    /// A second authority, used after repeated failures of the first. A table; in the environment as JSON.
    pub fallback: Option<AcmeDirectory>,
    /// For `local`: the folder of the authority that `certs local-ca` created.
    pub local_dir: Option<PathBuf>,
    /// The public HTTPS port at which the certificate of a domain is checked.
    pub probe_port: u16,
    /// The public HTTP port at which a domain is checked before a certificate is ordered.
    pub probe_http_port: u16,
}

impl Default for Acme {
    fn default() -> Self {
        Self {
            issuer: CertificateIssuer::None,
            directory_url: url("https://acme-v02.api.letsencrypt.org/directory"),
            contact: None,
            ca_file: None,
            external_account: None,
            profile: "tlsserver".into(),
            challenges: vec![ChallengeType::TlsAlpn01, ChallengeType::Http01, ChallengeType::Dns01],
            dns: DnsChallengeConfig::default(),
            resolvers: Vec::new(),
            limits: OrderLimits::Auto,
            fallback: None,
            local_dir: None,
            probe_port: 443,
            probe_http_port: 80,
        }
    }
}

impl Acme {
    /// Returns the primary authority.
    pub fn primary(&self) -> AcmeDirectory {
        AcmeDirectory {
            directory_url: self.directory_url.clone(),
            contact: self.contact.clone(),
            ca_file: self.ca_file.clone(),
            external_account: self.external_account.clone(),
        }
    }
}

/// `acme.issuer`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CertificateIssuer {
    /// An authority that speaks ACME (RFC 8555).
    Acme,
    /// The local authority in `acme.local_dir`, for names under `localhost`.
    Local,
    /// No issuer: certificates are imported.
    #[default]
    None,
}

/// `acme.limits`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderLimits {
    /// Let's Encrypt's limits for authorities on the internet, and none for those on this machine or in this network.
    #[default]
    Auto,
    /// Let's Encrypt's limits.
    Public,
    /// No limits.
    None,
}

/// A way to prove control of a name (RFC 8555, 8; RFC 8737).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChallengeType {
    /// A file that any edge serves over plain HTTP.
    #[serde(rename = "http-01")]
    Http01,
    /// A certificate that any edge presents for the protocol `acme-tls/1`.
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
    /// A TXT record in a zone that we can write to.
    #[serde(rename = "dns-01")]
    Dns01,
}

/// The directory of an ACME authority, and our account there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcmeDirectory {
    /// The directory's URL.
    pub directory_url: Url,
    /// An address at which the authority may contact us.
    #[serde(default)]
    pub contact: Option<String>,
    /// A PEM file with the only root that is trusted for the authority's own TLS.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The key of an account that already exists at the authority.
    #[serde(default)]
    pub external_account: Option<ExternalAccount>,
}

/// The key of an external account (RFC 8555, 7.3.4).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalAccount {
    /// The key's identifier, as issued by the authority.
    pub key_id: String,
    /// The key, in base64url.
    pub hmac_key: String,
}

impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAccount").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// `acme.dns`: how TXT records for `dns-01` are written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DnsChallengeConfig {
    /// The zone to which custom domains may delegate: a CNAME from `_acme-challenge.<domain>` to `<id>.<zone>`.
    pub zone: Option<String>,
    /// A name server that accepts dynamic updates (RFC 2136).
    pub rfc2136: Option<DynamicDnsServer>,
    /// A program that is run as `program add|remove <name> <value>` and exits with 0 once the record is visible
    /// everywhere.
    pub command: Option<PathBuf>,
}

/// A name server that accepts dynamic updates, signed with a shared key (RFC 2136, RFC 8945).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DynamicDnsServer {
    /// The address and port of the name server.
    pub server: SocketAddr,
    /// The zone to update; when absent, the longest one that the server is authoritative for.
    #[serde(default)]
    pub zone: Option<String>,
    /// The key's name.
    pub key_name: String,
    /// The key, in base64.
    pub key_secret: String,
    /// The key's algorithm: `hmac-sha256` (the default), `hmac-sha384` or `hmac-sha512`.
    #[serde(default)]
    pub key_algorithm: KeyAlgorithm,
}

impl fmt::Debug for DynamicDnsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Rfc2136");
        shown.field("server", &self.server).field("key_name", &self.key_name).finish_non_exhaustive()
    }
}

/// `acme.dns.rfc2136.key_algorithm` (RFC 8945, 6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyAlgorithm {
    /// HMAC with SHA-256.
    #[default]
    #[serde(rename = "hmac-sha256")]
    HmacSha256,
    /// HMAC with SHA-384.
    #[serde(rename = "hmac-sha384")]
    HmacSha384,
    /// HMAC with SHA-512.
    #[serde(rename = "hmac-sha512")]
    HmacSha512,
}
