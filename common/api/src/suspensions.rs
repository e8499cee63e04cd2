//! `/suspensions`.

use domain::{ProjectName, Timestamp, site::Suspension};
use serde::{Deserialize, Serialize};

/// A site that the operator has taken down.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SuspendedSite {
    /// The project's name; for a share, that of its `tmp-…` project.
    pub project: ProjectName,
    /// The reason for the suspension.
    pub reason: Suspension,
    /// The time at which the site was taken down.
    pub suspended_at: Timestamp,
}

/// The suspension of an account, which applies to all its present and future sites and AI keys.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SuspendedAccount {
    /// The reason for the suspension.
    pub reason: Suspension,
    /// The time at which the account was suspended.
    pub suspended_at: Timestamp,
}

/// A page of suspended sites, newest projects first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SuspensionList {
    /// The suspension of the account itself; null if it is not suspended.
    #[serde(default)]
    pub account: Option<SuspendedAccount>,
    /// The suspended sites of this page.
    pub suspensions: Vec<SuspendedSite>,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}
