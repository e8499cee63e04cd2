//! `svc repo`: the repository whose pushes deploy a project.

use api::repo::{LinkRepo, RepoLinked};
use clap::Subcommand;
use domain::{
    ProjectName,
    repo::{Branch, Directory, RepoName},
};
use serde_json::json;

use super::{projects, vcs};
use crate::{client::Client, failure::Failure, options::ProjectOption, output::Output};

/// Show or change the repository that a project deploys from.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::SHOW_IS_DEFAULT)]
pub(crate) struct RepoArgs {
    #[command(subcommand)]
    action: Option<RepoCommand>,
    #[command(flatten)]
    project: ProjectOption,
}

#[derive(Debug, Subcommand)]
enum RepoCommand {
    /// Show the linked repository
    Show,
    /// Deploy pushes to a repository
    Link {
        /// The repository, as owner/name
        repo: RepoName,
        /// The branch to deploy [default: the repository's default branch]
        #[arg(long, short)]
        branch: Option<Branch>,
        /// The folder of the repository to publish [default: all of it]
        #[arg(long, short, value_name = "DIR")]
        directory: Option<Directory>,
        /// The installation with access to the repository [default: the one on its owner's account]
        #[arg(long, value_name = "ID", value_parser = vcs::parse_id)]
        installation: Option<i64>,
    },
    /// Stop deploying pushes; published deployments stay
    Unlink,
}

pub(crate) async fn run(repo: RepoArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let name = repo.project.choose(client, output).await?;
    match repo.action.unwrap_or(RepoCommand::Show) {
        RepoCommand::Show => show(&name, client, output).await,
        RepoCommand::Link { repo, branch, directory, installation } => {
            let installation = match installation {
                Some(id) => id,
                None => find_installation(&repo, client).await?,
            };
            let body = LinkRepo { installation_id: Some(installation), repo: Some(repo), branch, directory };
            let linked = set(&name, &body, client).await?;
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            output.success(&format!("A push to {} of {} deploys {name}.", text(&linked.branch), text(&linked.repo)));
            output.result(&linked, String::new)
        }
        RepoCommand::Unlink => {
            let body = LinkRepo { installation_id: None, repo: None, branch: None, directory: None };
            let linked = set(&name, &body, client).await?;
            output.success(&format!("{name} deploys no pushes."));
            output.result(&linked, String::new)
        }
    }
}

async fn show(name: &ProjectName, client: &Client, output: Output) -> anyhow::Result<()> {
    let repo = projects::detail(name, client).await?.repo;
    output.result(&json!({"project": name, "repo": repo}), || {
        let Some(repo) = &repo else {
            return format!("{name} is linked to no repository. Link one: svc repo link OWNER/NAME --project {name}");
        };
        let link = if repo.directory == "." {
            format!("{name} deploys {} of {}.", repo.branch, repo.repo)
        } else {
            format!("{name} deploys {} of {}, from {}.", repo.directory, repo.repo, repo.branch)
        };
        match &repo.waits_for {
            None => link,
            Some(reason) => format!("{link}\nIts newest push waits. {reason}"),
        }
    })
}

/// Returns the id of the installation on the account that owns the repository.
async fn find_installation(repo: &RepoName, client: &Client) -> Result<i64, Failure> {
    let (owner, _) = repo.parts();
    let installations = vcs::installations(client).await?;
    let found = installations.iter().find(|installation| installation.account.eq_ignore_ascii_case(owner));
    found.map(|installation| installation.id).ok_or_else(|| {
        Failure::usage(format!("No installation on {owner} is yours or shared with you."))
            .with_hint("`svc vcs` lists them; install the app at the code host first.")
    })
}

async fn set(name: &ProjectName, body: &LinkRepo, client: &Client) -> Result<RepoLinked, Failure> {
    let answer = client.post::<RepoLinked>(&format!("/projects/{name}/repo"), body).await;
    answer.map(|answer| answer.body).map_err(|failure| match &*failure.code {
        "not_found" => failure.with_hint("`svc projects` lists your projects, `svc vcs` the installations."),
        _ => failure,
    })
}
