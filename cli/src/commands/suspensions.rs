//! Sites that the operator has taken down, for the lists of what is published.

use std::collections::HashMap;

use api::suspensions::SuspensionList;
use domain::{OrgName, ProjectName, site::Suspension};
use serde::Serialize;

use crate::client::Client;

/// What a list shows of a site, and why the operator has taken it down.
#[derive(Debug, Serialize)]
pub(super) struct Listed<T> {
    #[serde(flatten)]
    pub(super) site: T,
    /// Null while it is served, and where it is not known.
    pub(super) suspended: Option<Suspension>,
}

/// The reasons of your suspended sites, or an organization's, by project.
pub(super) struct Suspensions(Option<HashMap<ProjectName, Suspension>>);

impl Suspensions {
    /// Asks the API. It tells no deploy token, and an old one tells nobody: the list is shown all the same.
    pub(super) async fn fetch(org: Option<&OrgName>, client: &Client) -> Self {
        let path = org.map_or("/suspensions".to_owned(), |org| format!("/suspensions?org={org}"));
        let sites = client.list(&path, |page: SuspensionList| (page.suspensions, page.next_cursor)).await.ok();
        Self(sites.map(|sites| sites.into_iter().map(|site| (site.project, site.reason)).collect()))
    }

    /// Whether the API has told which sites are suspended.
    pub(super) fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// The reason why the site of `project` is suspended, when it is known to be.
    pub(super) fn of(&self, project: &ProjectName) -> Option<Suspension> {
        self.0.as_ref()?.get(project).copied()
    }

    /// Adds to `site`, which is that of `project`, whether it is suspended.
    pub(super) fn mark<T>(&self, project: &ProjectName, site: T) -> Listed<T> {
        Listed { suspended: self.of(project), site }
    }
}

/// The word for a suspended site.
pub(super) fn word(reason: Suspension) -> String {
    format!("suspended ({})", reason.as_str())
}
