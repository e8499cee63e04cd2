//! `svc deploy`.

use std::path::{Path, PathBuf};

use api::projects::{Project, ProjectDetail};
use clap_complete::engine::ArgValueCandidates;
use domain::{OrgName, ProjectName, site::Suspension};
use serde::Serialize;

use super::{
    browser, propagation,
    publish::{self, PublishConsents, PublishOutput},
    suspensions::{self, SuspensionIndex},
};
use crate::{
    client::Client,
    complete,
    failure::{Failure, FailureClass},
    options::ProjectOption,
    output::{self, Output},
    pack,
    project::{self, PROJECT_FILE},
};

/// Publish a folder: pack it, upload it and serve it.
#[derive(Debug, clap::Args)]
pub(crate) struct DeployArgs {
    /// The folder, an archive of one, or a single file [default: the current folder]
    dir: Option<PathBuf>,
    #[command(flatten)]
    project: ProjectOption,
    #[command(flatten)]
    consents: PublishConsents,
    /// The organization that owns the project, or will own it once created
    #[arg(long, value_name = "ORG", add = ArgValueCandidates::new(complete::orgs))]
    org: Option<OrgName>,
    /// Fail if there is no such project, instead of creating it
    #[arg(long)]
    no_create: bool,
    /// Open the site in the browser once it is live
    #[arg(long)]
    open: bool,
}

#[derive(Serialize)]
struct DeployOutput {
    project: ProjectName,
    created: bool,
    /// Why the site is hidden from visitors; null if it is visible or the state is unknown.
    suspended: Option<Suspension>,
    #[serde(flatten)]
    published: PublishOutput,
}

pub(crate) async fn run(deploy: DeployArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let dir = deploy.dir.as_deref().unwrap_or(Path::new("."));
    if deploy.dir.is_none()
        && let Some(build) = pack::likely_build_folder(dir)
    {
        let message = format!("This is a source folder; the site is probably in {build}/.");
        let hint = format!("Run `svc deploy {build}`, or `svc deploy .` to publish this folder as it is.");
        return Err(Failure::usage(message).with_hint(hint).into());
    }
    let save = deploy.project.save;
    let name = deploy.project.choose_for(dir, client, output).await?;

    // Look up the project while the folder is being packed. It is created only when there is something to publish.
    let (package, known) = tokio::join!(publish::package(dir, deploy.consents, output), find_project(&name, client));
    let (package, known) = (package?, known?);
    if let (Some(known), Some(org)) = (&known, &deploy.org) {
        check_owner(known, org)?;
    }
    let created = known.is_none();
    if created {
        if deploy.no_create {
            return Err(Failure::new(FailureClass::NotFound, "not_found", format!("There is no project {name}."))
                .with_hint(format!("Create it with `svc projects create {name}`."))
                .into());
        }
        let made = super::projects::create(&name, deploy.org.as_ref(), client).await?;
        output.success(&format!("Created project {} at {}", made.name, made.url));
    }
    let path = format!("/projects/{name}/deployments");
    // Look this up during the upload. A project that was just created is not suspended.
    let (published, suspended) =
        tokio::join!(publish::upload(package, &path, None, client, output), suspension(known.as_ref(), client));
    if created && published.is_err() {
        // The caller prints the failure itself.
        output::warning(&format!(
            "The project {name} is there now, and has nothing published. Run the command again once this is mended, or remove it: \
             svc projects delete {name}"
        ));
    }
    let published = published?;
    propagation::report(output, if suspended.is_some() { "Deployed" } else { "Live" }, published.propagation);
    if let Some(reason) = suspended {
        output.note(&format!(
            "The site is {}: it is deployed, and visitors see it once the operator lets it be served again.",
            suspensions::word(reason)
        ));
    }

    if save {
        project::remember(&name)?;
        output.note(&format!("Kept the name in {PROJECT_FILE}: from now on, `svc deploy` is enough."));
    }
    let url = published.uploaded.url.clone();
    if deploy.open && !browser::open(&url) {
        output.note("No browser was found to open it in.");
    }
    output.result(&DeployOutput { project: name, created, suspended, published }, || url)
}

/// Refuses to publish to a project of that name whose owner is not the one that `--org` names.
fn check_owner(project: &Project, wanted: &OrgName) -> Result<(), Failure> {
    if project.org.as_ref() == Some(wanted) {
        return Ok(());
    }
    let owner = project.org.as_ref().map_or("you".to_owned(), ToString::to_string);
    let message = format!("{} belongs to {owner}, not to {wanted}. Nothing was published.", project.name);
    Err(Failure::new(FailureClass::Conflict, "other_owner", message)
        .with_hint(format!("Leave --org out, or move it: svc transfer {wanted} --project {}", project.name)))
}

async fn find_project(name: &ProjectName, client: &Client) -> Result<Option<Project>, Failure> {
    match client.get::<ProjectDetail>(&format!("/projects/{name}")).await {
        Ok(detail) => Ok(Some(detail.body.project)),
        Err(failure) if failure.kind == FailureClass::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

async fn suspension(project: Option<&Project>, client: &Client) -> Option<Suspension> {
    let project = project?;
    SuspensionIndex::fetch(project.org.as_ref(), client).await.find_for(&project.name)
}
