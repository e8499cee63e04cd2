//! Custom domains of a project.

use domain::Hostname;
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
}

/// The request to attach a custom domain.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttachDomain {
    /// A hostname with at least two labels that is not under one of the platform's own domains.
    pub domain: Hostname,
}
