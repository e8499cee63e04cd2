//! `svc projects` and `svc open`.

use std::collections::HashMap;

use api::{
    Done,
    projects::{
        CreateProject, DeletedProject, DeletedProjectList, Project, ProjectDetail, ProjectList, RestoreProject,
    },
};
use clap::Subcommand;
use clap_complete::engine::ArgValueCandidates;
use domain::{Hostname, OrgName, ProjectName, names::NewProjectName};
use serde_json::json;

use super::{
    browser,
    suspensions::{self, SuspensionIndex, WithSuspension},
};
use crate::{
    client::Client,
    complete,
    failure::{Failure, FailureClass},
    options::{OwnerOption, ProjectOption},
    output::Output,
    project,
};

/// List your projects, or change them.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct ProjectsArgs {
    #[command(flatten)]
    owner: OwnerOption,
    /// Include the organizations' projects, with the owner of each
    #[arg(long, conflicts_with = "org")]
    all: bool,
    #[command(subcommand)]
    action: Option<ProjectsCommand>,
}

#[derive(Debug, Subcommand)]
enum ProjectsCommand {
    /// List the projects, newest first
    #[command(alias = "ls")]
    List {
        /// Include the organizations' projects, with the owner of each
        #[arg(long, conflicts_with = "org")]
        all: bool,
    },
    /// Create an empty project
    Create {
        /// 3 to 40 characters of a-z, 0-9 and -; it becomes the subdomain
        name: NewProjectName,
    },
    /// Remove a project with everything it has published
    #[command(alias = "remove", alias = "delete")]
    Rm {
        /// The project's name or address
        #[arg(value_parser = project::parse, add = ArgValueCandidates::new(complete::projects))]
        name: ProjectName,
    },
    /// List the deleted projects that can be restored
    Deleted,
    /// Restore a deleted project with all its deployments
    Restore {
        /// Its former name
        name: ProjectName,
        /// A new name, if the former one is taken
        #[arg(long = "as", value_name = "NAME")]
        new_name: Option<NewProjectName>,
    },
}

/// Open a project in the browser.
#[derive(Debug, clap::Args)]
pub(crate) struct OpenArgs {
    /// The project's name or address, as for --project
    #[arg(value_name = "NAME", value_parser = project::parse, add = ArgValueCandidates::new(complete::projects))]
    name: Option<ProjectName>,
    #[command(flatten)]
    project: ProjectOption,
}

pub(crate) async fn run(projects: ProjectsArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let org = projects.owner.org.as_ref();
    match projects.action.unwrap_or(ProjectsCommand::List { all: projects.all }) {
        ProjectsCommand::List { all: true } => list_all(client, output).await,
        ProjectsCommand::List { all: false } => list(org, client, output).await,
        ProjectsCommand::Create { name } => {
            let project = create(&name.into(), org, client).await?;
            output.success(&format!("Created project {}.", project.name));
            output.note(&format!("Publish a folder there: svc deploy DIR --project {}", project.name));
            output.result(&project, || project.url.clone())
        }
        ProjectsCommand::Rm { name } => remove(&name, client, output).await,
        ProjectsCommand::Deleted => list_deleted(org, client, output).await,
        ProjectsCommand::Restore { name, new_name } => restore(&name, org, new_name, client, output).await,
    }
}

pub(crate) async fn open(open: OpenArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let name = match open.name {
        Some(name) => name,
        None => open.project.choose(client, output).await?,
    };
    let project = detail(&name, client).await?.project;
    let opened = !output.is_json() && browser::open(&project.url);
    output.result(&json!({"project": name, "url": project.url, "opened": opened}), || project.url.clone())
}

/// Fetches a project's details; a failure includes the next step.
pub(super) async fn detail(name: &ProjectName, client: &Client) -> Result<ProjectDetail, Failure> {
    let answer = client.get(&format!("/projects/{name}")).await;
    Ok(answer.map_err(|failure| unknown(name, failure))?.body)
}

pub(super) async fn create(name: &ProjectName, org: Option<&OrgName>, client: &Client) -> Result<Project, Failure> {
    let name: NewProjectName =
        name.as_str().parse().map_err(|why| Failure::usage(format!("{name} cannot be a project: {why}.")))?;
    let body = CreateProject { name: name.clone(), org: org.map(ToString::to_string) };
    match client.post("/projects", &body).await {
        Ok(answer) => Ok(answer.body),
        Err(failure) => Err(match &*failure.code {
            "not_found" => failure.with_hint("`svc orgs` lists the organizations that you belong to."),
            "name_taken" => with_name_holder(&name, failure, client).await,
            _ => failure,
        }),
    }
}

/// Adds the holder of a taken name if it is the person or one of their organizations.
async fn with_name_holder(name: &NewProjectName, failure: Failure, client: &Client) -> Failure {
    let Ok(known) = client.get::<Project>(&format!("/projects/{name}")).await else {
        return Failure { message: format!("{name} is taken."), ..failure }.with_hint("Please choose another name.");
    };
    let owner = known.body.org.map_or("You have".to_owned(), |org| format!("{org} has"));
    Failure { message: format!("{owner} a project {name} already."), ..failure }
        .with_hint(format!("Publish a folder there: svc deploy DIR --project {name}"))
}

/// Adds the next step to a 404 of a project's routes.
pub(super) fn unknown(name: &ProjectName, failure: Failure) -> Failure {
    if failure.kind == FailureClass::NotFound {
        return Failure { message: format!("You have no project {name}."), ..failure }
            .with_hint("`svc projects` lists yours; `svc deploy` creates one.");
    }
    failure
}

async fn list_all(client: &Client, output: Output) -> anyhow::Result<()> {
    let projects = client.list("/projects?all=true", ProjectList::into_projects).await?;
    let mut owners: Vec<Option<OrgName>> = projects.iter().map(|project| project.org.clone()).collect();
    owners.sort();
    owners.dedup();
    let mut suspensions = HashMap::new();
    for owner in owners {
        suspensions.insert(owner.clone(), SuspensionIndex::fetch(owner.as_ref(), client).await);
    }
    let listed: Vec<_> = projects
        .into_iter()
        .filter_map(|project| {
            let known = suspensions.get(&project.org)?;
            Some(known.mark(&project.name.clone(), project))
        })
        .collect();
    let headings = ["NAME", "OWNER", "STATE", "CREATED", "ADDRESS"];
    output.list("projects", &listed, &headings, NO_PROJECTS, |listed| {
        let project = &listed.site;
        let owner = project.org.as_ref().map_or("you".to_owned(), ToString::to_string);
        let is_known = suspensions.get(&project.org).is_some_and(SuspensionIndex::is_known);
        let state = state(listed, is_known);
        vec![project.name.to_string(), owner, state, output.relative(project.created_at), project.url.clone()]
    })
}

fn state(listed: &WithSuspension<Project>, suspensions_are_known: bool) -> String {
    match (listed.suspended, &listed.site.active_deployment_id) {
        (Some(reason), _) => suspensions::word(reason),
        (None, None) => "empty".to_owned(),
        (None, Some(_)) if suspensions_are_known => "live".to_owned(),
        (None, Some(_)) => "deployed".to_owned(),
    }
}

const NO_PROJECTS: &str = "No projects yet. Publish a folder: svc deploy DIR --project NAME";

async fn list(org: Option<&OrgName>, client: &Client, output: Output) -> anyhow::Result<()> {
    let path = org.map_or("/projects".to_owned(), |org| format!("/projects?org={org}"));
    let projects = client.list(&path, ProjectList::into_projects).await?;
    let suspensions = SuspensionIndex::fetch(org, client).await;
    let projects: Vec<_> =
        projects.into_iter().map(|project| suspensions.mark(&project.name.clone(), project)).collect();
    let none = match org {
        Some(org) => format!("No projects yet. Publish a folder: svc deploy DIR --project NAME --org {org}"),
        None => "No projects of your own yet. Publish a folder: svc deploy DIR --project NAME\n\
                 All, the organizations' included: svc projects --all"
            .to_owned(),
    };
    output.list("projects", &projects, &["NAME", "STATE", "CREATED", "ADDRESS"], &none, |listed| {
        let project = &listed.site;
        let state = state(listed, suspensions.is_known());
        vec![project.name.to_string(), state, output.relative(project.created_at), project.url.clone()]
    })
}

async fn remove(name: &ProjectName, client: &Client, output: Output) -> anyhow::Result<()> {
    output.confirm_by_name(&format!("Removing {name} takes down its site and all its deployments."), name.as_str())?;
    let path = format!("/projects/{name}");
    // The owner is needed for the message below. A failure here is ignored, because the removal reports it.
    let org = client.get::<Project>(&path).await.ok().and_then(|project| project.body.org);
    let answer = client.delete::<Done>(&path).await.map_err(|failure| unknown(name, failure))?;
    output.success(&format!("Removed {name}."));
    let of_org = org.map(|org| format!(" --org {org}")).unwrap_or_default();
    output.note(&format!("For 7 days it can be had back: svc projects restore {name}{of_org}"));
    super::propagation::report(output, "Gone", answer.propagation);
    output.result(&answer.body, String::new)
}

async fn fetch_deleted(org: Option<&OrgName>, client: &Client) -> Result<Vec<DeletedProject>, Failure> {
    let path = org.map_or("/deleted-projects".to_owned(), |org| format!("/deleted-projects?org={org}"));
    client.list(&path, |page: DeletedProjectList| (page.projects, page.next_cursor)).await
}

async fn list_deleted(org: Option<&OrgName>, client: &Client, output: Output) -> anyhow::Result<()> {
    let projects = fetch_deleted(org, client).await?;
    let none = "No deleted projects that can be restored. They can be for 7 days.";
    output.list("projects", &projects, &["NAME", "DELETED", "ID"], none, |project| {
        vec![project.name.to_string(), output.relative(project.deleted_at), project.id.to_string()]
    })
}

async fn restore(
    name: &ProjectName,
    org: Option<&OrgName>,
    new_name: Option<NewProjectName>,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    // If several projects had the name, take the one that was deleted last.
    let deleted = fetch_deleted(org, client).await?;
    let found = deleted.into_iter().filter(|project| project.name == *name).max_by_key(|project| project.deleted_at);
    let found = found.ok_or_else(|| {
        let message = format!("There is no deleted project {name} that can be restored.");
        let hint = "`svc projects deleted` lists yours; `--org ORG` those of an organization.";
        Failure::new(FailureClass::NotFound, "not_found", message).with_hint(hint)
    })?;
    let path = format!("/deleted-projects/{}/restore", found.id);
    let answer = client.post::<Project>(&path, &RestoreProject { name: new_name }).await;
    let answer = answer.map_err(|failure| match &*failure.code {
        "name_taken" => {
            failure.with_hint(format!("Restore it under another name: svc projects restore {name} --as NAME"))
        }
        _ => failure,
    })?;
    output.success(&format!("Restored {}.", answer.body.name));
    if !found.domains.is_empty() {
        // The project is restored even if this request fails.
        let detail = client.get::<ProjectDetail>(&format!("/projects/{}", answer.body.name)).await;
        let back = detail.map_or_else(
            |_| found.domains.clone(),
            |detail| detail.body.domains.into_iter().map(|domain| domain.domain).collect::<Vec<Hostname>>(),
        );
        for lost in found.domains.iter().filter(|domain| !back.contains(domain)) {
            output.note(&format!("{lost} did not come back: another project has it now."));
        }
    }
    super::propagation::report(output, "Live", answer.propagation);
    output.result(&answer.body, || answer.body.url.clone())
}
