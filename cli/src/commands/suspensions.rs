//! Marks sites that the operator has suspended in lists of published sites.

use std::collections::HashMap;

use api::suspensions::SuspensionList;
use domain::{OrgName, ProjectName, site::Suspension};
use serde::Serialize;

use crate::client::Client;

/// A site in a list, and why it is suspended.
#[derive(Debug, Serialize)]
pub(super) struct WithSuspension<T> {
    #[serde(flatten)]
    pub(super) site: T,
    /// Null if the site is served or the state is unknown.
    pub(super) suspended: Option<Suspension>,
}

/// The suspended sites of the person or organization, with reasons, by project.
pub(super) struct SuspensionIndex(Option<HashMap<ProjectName, Suspension>>);

impl SuspensionIndex {
    /// Fetches the suspensions. Deploy tokens and older APIs get none, and the list is shown regardless.
    pub(super) async fn fetch(org: Option<&OrgName>, client: &Client) -> Self {
        let path = org.map_or("/suspensions".to_owned(), |org| format!("/suspensions?org={org}"));
        let sites = client.list(&path, |page: SuspensionList| (page.suspensions, page.next_cursor)).await.ok();
        Self(sites.map(|sites| sites.into_iter().map(|site| (site.project, site.reason)).collect()))
    }

    pub(super) fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// Returns why the site of `project` is suspended, if it is known to be.
    pub(super) fn find_for(&self, project: &ProjectName) -> Option<Suspension> {
        self.0.as_ref()?.get(project).copied()
    }

    /// Adds to `site`, the site of `project`, whether it is suspended.
    pub(super) fn mark<T>(&self, project: &ProjectName, site: T) -> WithSuspension<T> {
        WithSuspension { suspended: self.find_for(project), site }
    }
}

pub(super) fn word(reason: Suspension) -> String {
    format!("suspended ({})", reason.as_str())
}
