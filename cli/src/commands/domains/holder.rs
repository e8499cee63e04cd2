//! Finds the project of the same person that already has a domain.

use api::projects::{ProjectDetail, ProjectList};
use domain::{Hostname, ProjectName};
use futures_util::{StreamExt as _, stream};

use crate::{client::Client, failure::Failure};

/// The maximum number of projects to check, since this only improves an error message.
const MAX_PROJECTS: usize = 60;
/// The number of projects checked concurrently.
const CONCURRENT_REQUESTS: usize = 6;

/// Explains the refusal of a domain: adds the command that frees it if the person has it in another project.
pub(super) async fn explain(name: &ProjectName, domain: &Hostname, failure: Failure, client: &Client) -> Failure {
    let Some(holder) = find(name, domain, client).await else { return failure };
    Failure { message: format!("{domain} is attached to your project {holder}."), ..failure }.with_hint(format!(
        "Move it: svc domains remove {domain} --project {holder}, then svc domains add {domain} --project {name}"
    ))
}

async fn find(name: &ProjectName, domain: &Hostname, client: &Client) -> Option<ProjectName> {
    let (projects, _) = client.get::<ProjectList>("/projects?all=true").await.ok()?.body.into_projects();
    let others = projects.into_iter().map(|project| project.name).filter(|other| other != name).take(MAX_PROJECTS);
    let holders = stream::iter(others).map(|other| async move {
        let detail = client.get::<ProjectDetail>(&format!("/projects/{other}")).await.ok()?.body;
        detail.domains.iter().any(|attached| attached.domain == *domain).then_some(other)
    });
    let mut holders = std::pin::pin!(holders.buffer_unordered(CONCURRENT_REQUESTS).filter_map(std::future::ready));
    holders.next().await
}
