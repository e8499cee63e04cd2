//! Custom domains of a project.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A custom domain.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Domain {
    /// The hostname.
    pub domain: String,
    /// Whether a certificate for it is being served.
    pub tls_ready: bool,
    /// Where its CNAME must point.
    pub dns_target: String,
}
