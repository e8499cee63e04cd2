//! Custom domains of a project.

use domain::Hostname;
use serde::{Deserialize, Serialize};

/// A custom domain.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Domain {
    /// The hostname, in lower case, with internationalized labels as `xn--…`.
    pub domain: Hostname,
    /// Whether there is a certificate that covers it and is valid now.
    pub tls_ready: bool,
    /// Where its CNAME must point.
    pub dns_target: String,
}

/// Attaches a domain.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttachDomain {
    /// A hostname with at least two labels, not one of the platform's.
    pub domain: Hostname,
}
