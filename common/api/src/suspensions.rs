//! `/suspensions`.

use domain::{ProjectName, Timestamp, site::Suspension};
use serde::{Deserialize, Serialize};

/// A site that the operator has taken down.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SuspendedSite {
    /// The name of the project; of a share, that of its `tmp-…` project.
    pub project: ProjectName,
    /// The reason for which it was taken down.
    pub reason: Suspension,
    /// The time at which it was taken down.
    pub suspended_at: Timestamp,
}

/// The suspension of an account, which holds for all its sites and AI keys, and for those that it makes later.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SuspendedAccount {
    /// The reason for which it was suspended.
    pub reason: Suspension,
    /// The time at which it was suspended.
    pub suspended_at: Timestamp,
}

/// A page of suspended sites; those of the newest projects come first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SuspensionList {
    /// The suspension of the account itself; null while it is not suspended.
    #[serde(default)]
    pub account: Option<SuspendedAccount>,
    /// The suspended sites of this page.
    pub suspensions: Vec<SuspendedSite>,
    /// The `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}
