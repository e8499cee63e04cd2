//! A project's custom domains.

use std::net::IpAddr;

use domain::{Hostname, Timestamp, certificates::DomainState};
use serde::{Deserialize, Serialize};

/// A custom domain of a project.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Domain {
    /// The hostname, in lower case, with internationalized labels as `xn--…`.
    pub domain: Hostname,
    /// Whether there is a currently valid certificate that covers it.
    pub tls_ready: bool,
    /// The name to point the domain's CNAME at.
    pub dns_target: String,
    /// The records that point the domain here: a CNAME, or addresses where DNS does not allow a CNAME. Empty if none is
    /// needed, as for a name under `localhost` on a local platform.
    pub records: Vec<DnsRecord>,
    /// The progress of the domain's certificate.
    pub status: DomainStatus,
}

/// The progress of a domain's certificate, and what blocks it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DomainStatus {
    /// The state. `live` means that there is a certificate.
    pub state: DomainState,
    /// A sentence for people that names the problem and the record to change.
    pub message: String,
    /// Whether `message` reports a problem: with the certificate or, if there is one, with reaching the site.
    pub has_obstacle: bool,
    /// The time at which the domain entered this state, if known.
    pub since: Option<Timestamp>,
    /// The time of the next check; null if none is planned.
    pub next_attempt_at: Option<Timestamp>,
}

/// A DNS record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DnsRecord {
    /// The type: `CNAME`, `A`, `AAAA`, `CAA`, or `ALIAS` for what some providers call ANAME or a flattened CNAME.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name of the record.
    pub name: String,
    /// The record's value.
    pub value: String,
}

impl DnsRecord {
    /// Returns the record in zone-file syntax.
    pub fn line(&self) -> String {
        let dot = if matches!(self.kind.as_str(), "CNAME" | "ALIAS") { "." } else { "" };
        format!("{}.  {}  {}{dot}", self.name, self.kind, self.value)
    }
}

/// The request to attach a custom domain.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttachDomain {
    /// A hostname with at least two labels, not under one of the platform's own domains.
    pub domain: Hostname,
}

/// The response to a request to check a domain now.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Refreshed {
    /// Always `true`.
    pub ok: bool,
    /// The domain.
    pub domain: Hostname,
    /// Whether there is a currently valid certificate that covers it. The domain's `status` shows the progress of
    /// another.
    pub tls_ready: bool,
}

/// A domain's DNS records as they are and as they should be.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Diagnosis {
    /// The domain.
    pub domain: Hostname,
    /// Whether the domain is attached to this project.
    pub attached: bool,
    /// Whether the domain is attached to another project.
    pub taken: bool,
    /// The overall verdict.
    pub verdict: DnsVerdict,
    /// A sentence for people that names the problem and the record to change.
    pub message: String,
    /// The records that point the domain here.
    pub records: Vec<DnsRecord>,
    /// The record, specific to this project, that lets the domain get a certificate before it points here; null if
    /// disabled.
    pub delegation: Option<Delegation>,
    /// The view of each resolver.
    pub resolvers: Vec<ResolverView>,
    /// The plain HTTP check, made once DNS points here or to a proxy.
    pub http: Option<HttpWay>,
    /// The progress of the domain's certificate, with the certificate authority's last refusal in its own words. Null
    /// if the domain is not attached to this project.
    pub status: Option<DomainStatus>,
    /// The changes to make, ready for copying.
    pub fixes: Vec<Fix>,
}

/// The record that delegates the proof of a domain to the platform.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Delegation {
    /// The record: a CNAME at `_acme-challenge.<domain>`.
    pub record: DnsRecord,
    /// Whether the record is set.
    pub stands: bool,
}

/// The verdict on a domain's DNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DnsVerdict {
    /// The domain points here, and nothing in DNS blocks a certificate.
    Leads,
    /// A record has yet to be set or to propagate.
    Waiting,
    /// A record must be changed.
    Blocked,
}

/// Where a resolver sends the visitors of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DnsFinding {
    /// Here, over every address.
    Leads,
    /// Nowhere: there is no address.
    Nothing,
    /// To other addresses.
    Elsewhere,
    /// Here and to other addresses.
    Partly,
    /// Here over IPv4, and elsewhere over IPv6.
    StaleIpv6,
    /// To a proxy that answers in our place.
    Proxied,
    /// Nowhere: the answers of the domain's name servers are unusable. The message says whether DNSSEC is the reason.
    Servfail,
    /// To the platform's name, which itself has no address.
    NoTarget,
    /// The resolver could not be queried, which says nothing about the domain.
    Unasked,
}

/// One resolver's view of a domain.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResolverView {
    /// The resolver's address.
    pub resolver: String,
    /// Where the resolver sends visitors.
    pub finding: DnsFinding,
    /// The finding as a sentence.
    pub message: String,
    /// The names that the domain is an alias for, nearest first.
    pub cname: Vec<String>,
    /// Its IPv4 addresses.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub a: Vec<IpAddr>,
    /// Its IPv6 addresses.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub aaaa: Vec<IpAddr>,
    /// The CAA records that apply to it.
    pub caa: Vec<DnsRecord>,
}

/// The result of fetching a file from a domain over plain HTTP, as certificate authorities do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HttpWay {
    /// Whether our own file came back; null if that could not be tried.
    pub open: Option<bool>,
    /// A sentence that describes the result.
    pub message: String,
}

/// A change to a DNS record.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Fix {
    /// Whether to set or remove the record.
    pub action: FixAction,
    /// The record.
    #[serde(flatten)]
    pub record: DnsRecord,
    /// The reason, as a sentence.
    pub why: String,
}

/// The action to take on a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FixAction {
    /// Add the record, or replace the existing one with it.
    Set,
    /// Remove it.
    Remove,
}

/// The certificate that a custom domain presents. Without one, only `domain`, `reachable`, `valid` and `error` are set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CertificateStatus {
    /// The domain.
    pub domain: Hostname,
    /// Whether the domain accepts a TLS connection and presents a certificate.
    pub reachable: bool,
    /// Whether the certificate is valid now, is for this domain, and chains to a trusted authority.
    pub valid: bool,
    /// The issuer's name, as people know it.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub issuer: Option<String>,
    /// The certificate's subject, or one of its names if the subject is empty.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub subject: Option<String>,
    /// The start of the validity period.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub valid_from: Option<Timestamp>,
    /// The end of the validity period.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub valid_to: Option<Timestamp>,
    /// Whole days until `valid_to`; negative once it has passed.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub days_remaining: Option<i64>,
    /// Why `reachable` or `valid` is false, in one sentence; null if neither is.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub error: Option<String>,
}
