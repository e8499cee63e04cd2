//! `[acme]`: where certificates come from.

use std::{fmt, net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};
use url::Url;

use super::url;

/// `[acme]`: where certificates come from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Acme {
    /// The issuer: an `acme` authority, this installation's own (`local`), or nobody (`none`, the default).
    pub issuer: Issuer,
    /// The directory of the ACME authority; Let's Encrypt's when absent.
    pub directory_url: Url,
    /// An address that the authority may write to about our certificates.
    pub contact: Option<String>,
    /// A PEM file with the only root that the authority's own TLS is trusted by; the public ones when absent.
    pub ca_file: Option<PathBuf>,
    /// The key that ties our account to one that the authority knows already, as JSON or a table: `{key_id, hmac_key}`,
    /// the second in base64url (RFC 8555, 7.3.4).
    pub external_account: Option<ExternalAccount>,
    /// The profile that is asked for when the directory offers it; none when empty.
    pub profile: String,
    /// The challenges that may be used, in the order of preference. A wildcard can have `dns-01` only.
    pub challenges: Vec<Challenge>,
    /// The way in which records for `dns-01` are written. A table; in the environment as JSON.
    pub dns: Dns,
    /// The resolvers that domains are looked up with, as `address:port`; those of this machine when empty.
    pub resolvers: Vec<String>,
    /// The limits that orders stay below: those that Let's Encrypt publishes (`public`), none (`none`), or the former at
    /// authorities on the internet (`auto`, the default).
    pub limits: Limits,
    /// A second authority, which is asked after repeated failures of the first. A table; in the environment as JSON.
    pub fallback: Option<Directory>,
    /// For `local`: the folder of the authority that `certs local-ca` made.
    pub local_dir: Option<PathBuf>,
    /// The port of HTTPS at which a domain's certificate is looked at, as the world sees it.
    pub probe_port: u16,
    /// The port of plain HTTP at which a domain is looked at before a certificate is ordered.
    pub probe_http_port: u16,
}

impl Default for Acme {
    fn default() -> Self {
        Self {
            issuer: Issuer::None,
            directory_url: url("https://acme-v02.api.letsencrypt.org/directory"),
            contact: None,
            ca_file: None,
            external_account: None,
            profile: "tlsserver".into(),
            challenges: vec![Challenge::TlsAlpn01, Challenge::Http01, Challenge::Dns01],
            dns: Dns::default(),
            resolvers: Vec::new(),
            limits: Limits::Auto,
            fallback: None,
            local_dir: None,
            probe_port: 443,
            probe_http_port: 80,
        }
    }
}

impl Acme {
    /// The authority that is asked first.
    pub fn primary(&self) -> Directory {
        Directory {
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
pub enum Issuer {
    /// An authority that speaks ACME (RFC 8555).
    Acme,
    /// The local authority in `acme.local_dir`, for names under `localhost`.
    Local,
    /// Nobody: certificates are imported.
    #[default]
    None,
}

/// `acme.limits`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limits {
    /// Let's Encrypt's at authorities on the internet, and none at those on this machine or in this network.
    #[default]
    Auto,
    /// Let's Encrypt's.
    Public,
    /// None of our own.
    None,
}

/// A way to prove that a name is ours (RFC 8555, 8; RFC 8737).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Challenge {
    /// A file that any edge answers over plain HTTP.
    #[serde(rename = "http-01")]
    Http01,
    /// A certificate that any edge presents to the protocol `acme-tls/1`.
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
    /// A TXT record in a zone that we can write.
    #[serde(rename = "dns-01")]
    Dns01,
}

/// A directory of an ACME authority, and our account there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    /// The directory's URL.
    pub directory_url: Url,
    /// An address that the authority may write to.
    #[serde(default)]
    pub contact: Option<String>,
    /// A PEM file with the only root that the authority's own TLS is trusted by.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The key of an account that the authority knows already.
    #[serde(default)]
    pub external_account: Option<ExternalAccount>,
}

/// The key of an external account (RFC 8555, 7.3.4).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalAccount {
    /// The key's identifier, as the authority gave it.
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
pub struct Dns {
    /// The zone under which custom domains may delegate: a CNAME from `_acme-challenge.<domain>` to `<id>.<zone>`.
    pub zone: Option<String>,
    /// A name server that takes dynamic updates (RFC 2136).
    pub rfc2136: Option<Rfc2136>,
    /// A program that is run as `program add|remove <name> <value>`, and ends with 0 once the record stands everywhere.
    pub command: Option<PathBuf>,
}

/// A name server that takes dynamic updates, signed with a shared key (RFC 2136, RFC 8945).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rfc2136 {
    /// Its address and port.
    pub server: SocketAddr,
    /// The zone that updates are for; the longest that the server answers for when absent.
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

impl fmt::Debug for Rfc2136 {
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
