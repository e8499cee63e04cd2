//! The edge's view of a host: the site behind it, and who may see it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{DeploymentId, OrgId, PayingAccount, ProjectId, Timestamp, month::Month};

/// The site that an edge serves for a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The project behind the host.
    pub project: ProjectId,
    /// The deployment that is served; `None` before the first one.
    pub deployment: Option<DeploymentId>,
    /// The live deployment, whose `Basic-Auth` guards every address of the project; `None` before the first one.
    pub live: Option<DeploymentId>,
    /// The kind of address.
    pub kind: SiteKind,
    /// The visitors who may see the site.
    pub gate: SiteGate,
    /// The project's access version: the version a gate cookie must carry.
    pub access_version: i64,
    /// The time from which the site is no longer served.
    pub expires_at: Option<Timestamp>,
    /// The reason the operator suspended the site or its owner; `None` while it is served.
    pub suspended: Option<Suspension>,
    /// The account that owns the project, and the person behind it.
    pub owner: PayingAccount,
    /// The latest month whose bandwidth the owner has used up on its current plan.
    pub bandwidth_used_up: Option<Month>,
}

impl Site {
    /// Returns whether the owner has used up the month's bandwidth. Calls `now()` only when it matters.
    pub fn is_over_bandwidth(&self, now: impl FnOnce() -> Timestamp) -> bool {
        self.bandwidth_used_up.is_some_and(|month| month == Month::from_timestamp(now()))
    }
}

/// The reason the operator suspends a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "lowercase"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Suspension {
    /// The site harms others, or breaks the operator's terms.
    Abuse,
    /// Required by a law or a court.
    Legal,
    /// The owner has not paid.
    Payment,
}

impl Suspension {
    /// Returns the word that is stored, and that the operator types.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Abuse => "abuse",
            Self::Legal => "legal",
            Self::Payment => "payment",
        }
    }
}

/// The kind of address of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteKind {
    /// The project's subdomain or custom domain, serving the active deployment.
    Live,
    /// The permanent address of one deployment. Not indexed by search engines.
    Deployment,
    /// A share. Not indexed by search engines.
    Share,
}

/// The visitors who may see a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteGate {
    /// Every visitor.
    Public,
    /// Visitors who know the password, with its argon2id hash.
    Password(Arc<str>),
    /// Members of the organization.
    Org(OrgId),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_month_has_bandwidth_again() {
        let body = "0123456789abcdefghij";
        let month: Month = "2028-02".parse().unwrap();
        let site = Site {
            project: ProjectId::from_body(body).unwrap(),
            deployment: None,
            live: None,
            kind: SiteKind::Live,
            gate: SiteGate::Public,
            access_version: 0,
            expires_at: None,
            suspended: None,
            owner: PayingAccount::new(OrgId::from_body(body).unwrap().into(), None),
            bandwidth_used_up: Some(month),
        };
        let leap_day_end = month.next().start() - std::time::Duration::from_millis(1);
        assert!(site.is_over_bandwidth(|| month.start()) && site.is_over_bandwidth(|| leap_day_end));
        assert!(!site.is_over_bandwidth(|| month.next().start()));
        let within = Site { bandwidth_used_up: None, ..site };
        assert!(!within.is_over_bandwidth(|| unreachable!("the clock is not asked")));
    }
}
