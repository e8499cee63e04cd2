//! Custom domains of a project.

use std::net::IpAddr;

use domain::{Hostname, Timestamp, certificates::DomainState};
use serde::{Deserialize, Serialize};

/// A custom domain of a project.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Domain {
    /// The hostname, in lower case, with internationalized labels as `xn--…`.
    pub domain: Hostname,
    /// Whether there is a certificate that covers it and is valid now.
    pub tls_ready: bool,
    /// The name that the domain's CNAME must point to.
    pub dns_target: String,
    /// The records that lead the domain here: a CNAME, or addresses where DNS allows no CNAME. Empty where none is
    /// needed: a name under `localhost`, on a platform of this machine's own.
    pub records: Vec<DnsRecord>,
    /// The progress of the domain's certificate.
    pub status: DomainStatus,
}

/// The progress of a domain's certificate, and the obstacle.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DomainStatus {
    /// The state. When it is `live`, there is a certificate.
    pub state: DomainState,
    /// One sentence for a person: what is in the way, and the record to change.
    pub message: String,
    /// Whether `message` says that something is in the way: of the certificate, or of the visitors of a domain that has
    /// one.
    pub has_obstacle: bool,
    /// The time at which the domain came into this state, when it is known.
    pub since: Option<Timestamp>,
    /// The time at which it is looked at next; null when it is not.
    pub next_attempt_at: Option<Timestamp>,
}

/// A DNS record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DnsRecord {
    /// The type: `CNAME`, `A`, `AAAA`, `CAA`, or `ALIAS` for what some providers call ANAME or a flattened CNAME.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name that has the record.
    pub name: String,
    /// The record's value.
    pub value: String,
}

impl DnsRecord {
    /// The record in the syntax of zone files.
    pub fn line(&self) -> String {
        let dot = if matches!(self.kind.as_str(), "CNAME" | "ALIAS") { "." } else { "" };
        format!("{}.  {}  {}{dot}", self.name, self.kind, self.value)
    }
}

/// The request to attach a custom domain.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttachDomain {
    /// A hostname with at least two labels that is not under one of the platform's own domains.
    pub domain: Hostname,
}

/// The answer to the request to look at a domain now.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Refreshed {
    /// Always true.
    pub ok: bool,
    /// The domain.
    pub domain: Hostname,
    /// Whether there is a certificate that covers it and is valid now. The progress of another, and what
    /// is in the way, is the `status` of the project's domain.
    pub tls_ready: bool,
}

/// The DNS of a domain: its present records, and those it should have.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Diagnosis {
    /// The domain.
    pub domain: Hostname,
    /// Whether it is attached to this project.
    pub attached: bool,
    /// Whether another project has it.
    pub taken: bool,
    /// The verdict on everything that was found.
    pub verdict: DnsVerdict,
    /// One sentence for a person: what is in the way, and the record to change.
    pub message: String,
    /// The records that lead the domain here.
    pub records: Vec<DnsRecord>,
    /// The record by which its owner may have a certificate before the domain leads here. It is this project's own;
    /// null when the operator has not made that possible.
    pub delegation: Option<Delegation>,
    /// Each resolver's view.
    pub resolvers: Vec<ResolverView>,
    /// The way over plain HTTP, which is tried once DNS leads here, or to a proxy.
    pub http: Option<HttpWay>,
    /// The progress of the domain's certificate, with the certificate authority's last refusal in its own words. Null
    /// when the domain is not attached to this project.
    pub status: Option<DomainStatus>,
    /// The changes to make, for copying.
    pub fixes: Vec<Fix>,
}

/// The record that leaves the proof of a domain to the platform.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Delegation {
    /// The record: a CNAME at `_acme-challenge.<domain>`.
    pub record: DnsRecord,
    /// Whether it stands.
    pub stands: bool,
}

/// The verdict on a domain's DNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DnsVerdict {
    /// The domain leads here, and nothing in DNS is in the way of a certificate.
    Leads,
    /// A record is still to be set, or to spread.
    Waiting,
    /// A record has to be changed.
    Blocked,
}

/// The destination to which a resolver leads the visitors of a domain.
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
    /// Nowhere: the answers of the domain's name servers cannot be used. The message says whether DNSSEC is the reason.
    Servfail,
    /// To the platform's name, which has no address itself.
    NoTarget,
    /// The resolver could not be asked, which says nothing about the domain.
    Unasked,
}

/// One resolver's view of a domain.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResolverView {
    /// The resolver's address.
    pub resolver: String,
    /// The destination of its visitors.
    pub finding: DnsFinding,
    /// The finding as a sentence.
    pub message: String,
    /// The names that the domain is an alias of, the nearest first.
    pub cname: Vec<String>,
    /// Its IPv4 addresses.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub a: Vec<IpAddr>,
    /// Its IPv6 addresses.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub aaaa: Vec<IpAddr>,
    /// The CAA records that count for it.
    pub caa: Vec<DnsRecord>,
}

/// The way to a domain over plain HTTP, as certificate authorities take it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HttpWay {
    /// Whether our own file came back; null when that could not be tried.
    pub open: Option<bool>,
    /// The answer that came instead, as a sentence.
    pub message: String,
}

/// A change of a DNS record.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Fix {
    /// Whether the record is to be set or removed.
    pub action: FixAction,
    /// The record.
    #[serde(flatten)]
    pub record: DnsRecord,
    /// The reason, as a sentence.
    pub why: String,
}

/// The change to make to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FixAction {
    /// Add it, or put it in the place of what stands there.
    Set,
    /// Remove it.
    Remove,
}

/// The certificate that visitors of a custom domain are shown now. Without one, only `domain`, `reachable`, `valid`
/// and `error` say something.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CertificateStatus {
    /// The domain.
    pub domain: Hostname,
    /// Whether something answers there over TLS and shows a certificate.
    pub reachable: bool,
    /// Whether the certificate's chain leads to an authority that is trusted, it is for this domain, and now is within
    /// its validity.
    pub valid: bool,
    /// The issuer, by the name that people know it by.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub issuer: Option<String>,
    /// The holder: its subject, or one of its names where that is empty.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub subject: Option<String>,
    /// The start of its validity.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub valid_from: Option<Timestamp>,
    /// The end of its validity.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub valid_to: Option<Timestamp>,
    /// Whole days from now until `valid_to`; negative when it is over.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub days_remaining: Option<i64>,
    /// The obstacle to `reachable` or `valid`, in one sentence; null when there is none.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub error: Option<String>,
}
