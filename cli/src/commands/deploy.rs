//! `svc deploy`.

use std::path::{Path, PathBuf};

use api::projects::{Project, ProjectDetail};
use domain::{OrgName, ProjectName, site::Suspension};
use serde::Serialize;

use super::{
    propagation,
    publish::{self, Consents, Published},
    suspensions::{self, Suspensions},
};
use crate::{
    client::Client,
    failure::{Failure, Kind},
    options::ProjectOption,
    output::Output,
    pack,
    project::{self, PROJECT_FILE},
};

/// Publish a folder: pack it, upload it and serve it.
#[derive(Debug, clap::Args)]
pub(crate) struct Deploy {
    /// The folder, an archive of one, or a single file [default: the current folder]
    dir: Option<PathBuf>,
    #[command(flatten)]
    project: ProjectOption,
    #[command(flatten)]
    consents: Consents,
    /// The organization that will own the project, when it is created
    #[arg(long, value_name = "ORG")]
    org: Option<OrgName>,
    /// Fail when there is no such project, instead of creating it
    #[arg(long)]
    no_create: bool,
    /// Keep the project's name in .svcproject in the current folder
    #[arg(long)]
    save: bool,
}

#[derive(Serialize)]
struct Deployed {
    project: ProjectName,
    created: bool,
    /// Why visitors do not see it; null while they do, and where it is not known.
    suspended: Option<Suspension>,
    #[serde(flatten)]
    published: Published,
}

pub(crate) async fn run(deploy: Deploy, client: &Client, output: Output) -> anyhow::Result<()> {
    let dir = deploy.dir.as_deref().unwrap_or(Path::new("."));
    if deploy.dir.is_none()
        && let Some(build) = pack::likely_build_folder(dir)
    {
        let message = format!("This is a source folder; the site is probably in {build}/.");
        let hint = format!("Run `svc deploy {build}`, or `svc deploy .` to publish this folder as it is.");
        return Err(Failure::usage(message).with_hint(hint).into());
    }
    let name = project::named_or_remembered(deploy.project.project, Some(dir))?;

    // Whether the project is there is asked while the folder is being packed; it is made when there is something to put
    // into it.
    let (package, known) = tokio::join!(publish::package(dir, deploy.consents, output), known(&name, client));
    let (package, known) = (package?, known?);
    let created = known.is_none();
    if created {
        if deploy.no_create {
            return Err(Failure::new(Kind::NotFound, "not_found", format!("There is no project {name}."))
                .with_hint(format!("Create it with `svc projects create {name}`."))
                .into());
        }
        let made = super::projects::create(&name, deploy.org.as_ref(), client).await?;
        output.success(&format!("Created project {} at {}", made.name, made.url));
    }
    let path = format!("/projects/{name}/deployments");
    // Asked while the upload is under way; what was made just now is not suspended.
    let (published, suspended) =
        tokio::join!(publish::upload(package, &path, None, client, output), suspension(known.as_ref(), client));
    let published = published?;
    propagation::report(output, if suspended.is_some() { "Deployed" } else { "Live" }, published.propagation);
    if let Some(reason) = suspended {
        output.note(&format!(
            "The site is {}: it is deployed, and visitors see it once the operator lets it be served again.",
            suspensions::word(reason)
        ));
    }

    if deploy.save {
        project::remember(&name)?;
        output.note(&format!("Kept the name in {PROJECT_FILE}: from now on, `svc deploy` is enough."));
    }
    let url = published.uploaded.url.clone();
    output.result(&Deployed { project: name, created, suspended, published }, || url)
}

async fn known(name: &ProjectName, client: &Client) -> Result<Option<Project>, Failure> {
    match client.get::<ProjectDetail>(&format!("/projects/{name}")).await {
        Ok(detail) => Ok(Some(detail.body.project)),
        Err(failure) if failure.kind == Kind::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

async fn suspension(project: Option<&Project>, client: &Client) -> Option<Suspension> {
    let project = project?;
    Suspensions::fetch(project.org.as_ref(), client).await.of(&project.name)
}
