//! What an edge knows of a host: the site behind it, and who may see it.

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
    /// The project's live deployment, whose `Basic-Auth` guards every address of the project; `None` before the first one.
    pub live: Option<DeploymentId>,
    /// The kind of address that the host is.
    pub kind: SiteKind,
    /// The visitors who may see the site.
    pub gate: Gate,
    /// The project's access version: the version a gate cookie must carry.
    pub access_version: i64,
    /// Time from which the site is gone.
    pub expires_at: Option<Timestamp>,
    /// Why the operator has taken it down, or suspended its owner; `None` while it is served.
    pub suspended: Option<Suspension>,
    /// The account that owns the project, and who stands behind it.
    pub owner: PayingAccount,
    /// The latest month whose bandwidth the owner has used up, on the plan that it still has.
    pub bandwidth_used_up: Option<Month>,
}

impl Site {
    /// Returns whether the owner has used up the bandwidth of the month of `now()`, which is asked only where it matters.
    pub fn is_over_bandwidth(&self, now: impl FnOnce() -> Timestamp) -> bool {
        self.bandwidth_used_up.is_some_and(|month| month == Month::of(now()))
    }
}

/// A reason for which the operator takes a site down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "lowercase"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Suspension {
    /// The site harms others, or breaks the operator's terms.
    Abuse,
    /// A law or a court demands it.
    Legal,
    /// Its owner has not paid.
    Payment,
}

impl Suspension {
    /// Returns the word that is stored, and that the operator writes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Abuse => "abuse",
            Self::Legal => "legal",
            Self::Payment => "payment",
        }
    }
}

/// The kinds of addresses that a project has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteKind {
    /// The project's subdomain or custom domain: the active deployment.
    Live,
    /// One deployment's permanent address. Not for search engines.
    Deployment,
    /// A share. Not for search engines.
    Share,
}

/// The visitors who may see a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// Every visitor.
    Public,
    /// Visitors who know the password, whose argon2id hash this is.
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
            gate: Gate::Public,
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
