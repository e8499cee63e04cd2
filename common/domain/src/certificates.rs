//! The certificate of a custom domain, as the steps that a person sees.

use serde::{Deserialize, Serialize};

/// The progress of a domain's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DomainState {
    /// Its DNS does not lead here yet.
    WaitingForDns,
    /// Its DNS leads here; the way through the public name is being tried.
    Checking,
    /// A certificate is being ordered.
    Ordering,
    /// It has a certificate that is valid, and nothing is to be done.
    Live,
    /// It has a certificate that is valid, and the next is being ordered.
    Renewing,
    /// Something is in the way that its owner or the operator has to change.
    Blocked,
}

impl DomainState {
    /// Every state.
    pub const ALL: &'static [Self] =
        &[Self::WaitingForDns, Self::Checking, Self::Ordering, Self::Live, Self::Renewing, Self::Blocked];

    /// The word that is stored and shown.
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
    /// An authority that speaks ACME.
    Acme,
    /// The local authority.
    Local,
    /// The operator, by `certs import`.
    Import,
}

impl CertificateSource {
    /// The word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acme => "acme",
            Self::Local => "local",
            Self::Import => "import",
        }
    }
}
