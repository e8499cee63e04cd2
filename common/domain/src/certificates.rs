//! The progress of a custom domain's certificate, in the steps shown to people.

use serde::{Deserialize, Serialize};

/// The progress of a domain's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DomainState {
    /// Its DNS does not point here yet.
    WaitingForDns,
    /// Its DNS points here; a request through the public name is being tried.
    Checking,
    /// A certificate is being ordered.
    Ordering,
    /// It has a valid certificate, and no action is needed.
    Live,
    /// It has a valid certificate, and the next one is being ordered.
    Renewing,
    /// The owner or the operator has to change something.
    Blocked,
}

impl DomainState {
    /// All states.
    pub const ALL: &'static [Self] =
        &[Self::WaitingForDns, Self::Checking, Self::Ordering, Self::Live, Self::Renewing, Self::Blocked];

    /// Returns the word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WaitingForDns => "waiting_for_dns",
            Self::Checking => "checking",
            Self::Ordering => "ordering",
            Self::Live => "live",
            Self::Renewing => "renewing",
            Self::Blocked => "blocked",
        }
    }
}

/// The origin of a stored certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
pub enum CertificateSource {
    /// An ACME authority.
    Acme,
    /// The local authority.
    Local,
    /// The operator, by `certs import`.
    Import,
}

impl CertificateSource {
    /// Returns the word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acme => "acme",
            Self::Local => "local",
            Self::Import => "import",
        }
    }
}
