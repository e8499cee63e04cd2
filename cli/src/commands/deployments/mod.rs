//! `svc deployments`, `svc rollback` and `svc download`.

mod download;
mod files;
mod reference;

use api::deployments::{Activated, Deployment, DeploymentList};
use clap::Subcommand;
use clap_complete::engine::ArgValueCandidates;
use domain::{DeploymentId, ProjectName, deployment::DeploymentStatus};
use serde_json::json;

pub(crate) use self::download::{DownloadArgs, run as download};
use self::reference::DeploymentReference;
use super::{projects, propagation};
use crate::{
    client::Client,
    complete,
    failure::{Failure, FailureClass},
    options::ProjectOption,
    output::{Output, count, size},
};

const SHORT_SHA: usize = 8;

/// List a project's deployments, newest first, or show what is in one.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct DeploymentsArgs {
    #[command(subcommand)]
    action: Option<DeploymentsCommand>,
    #[command(flatten)]
    project: ProjectOption,
    /// The number of newest deployments to list
    #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..=100))]
    limit: u8,
}

#[derive(Debug, Subcommand)]
enum DeploymentsCommand {
    /// List the files of a deployment
    Files {
        /// The deployment, by id or address
        #[arg(add = ArgValueCandidates::new(complete::deployments))]
        deployment: DeploymentReference,
    },
    /// Show how the files of a deployment differ from those of another
    Diff {
        /// The deployment, by id or address
        #[arg(add = ArgValueCandidates::new(complete::deployments))]
        deployment: DeploymentReference,
        /// The deployment to compare with, by id or address [default: the one before it]
        #[arg(add = ArgValueCandidates::new(complete::deployments))]
        other: Option<DeploymentReference>,
    },
}

/// Serve an earlier deployment again, without an upload.
#[derive(Debug, clap::Args)]
pub(crate) struct RollbackArgs {
    /// The deployment, by id or address [default: the newest one before the live one]
    #[arg(add = ArgValueCandidates::new(complete::deployments))]
    deployment: Option<DeploymentReference>,
    #[command(flatten)]
    project: ProjectOption,
}

pub(crate) async fn run(args: DeploymentsArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    match args.action {
        None => list(&args.project.choose(client, output).await?, args.limit, client, output).await,
        Some(DeploymentsCommand::Files { deployment }) => {
            let name = deployment.project(args.project, client, output).await?;
            files::list(&name, &deployment.id, client, output).await
        }
        Some(DeploymentsCommand::Diff { deployment, other }) => {
            let name = deployment.project(args.project, client, output).await?;
            files::diff(&name, &deployment.id, other.as_ref().map(|other| &other.id), client, output).await
        }
    }
}

async fn list(name: &ProjectName, limit: u8, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.get::<DeploymentList>(&format!("/projects/{name}/deployments?limit={limit}")).await;
    let deployments = answer.map_err(|failure| projects::unknown(name, failure))?.body.deployments;
    output.list(
        "deployments",
        &deployments,
        &["", "DEPLOYMENT", "STATUS", "CREATED", "FILES", "SIZE", "COMMIT", "BY", "EXPIRES", ""],
        "Nothing was deployed yet. Publish a folder: svc deploy DIR",
        |deployment| line(deployment, output),
    )
}

pub(crate) async fn rollback(args: RollbackArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let (name, id) = if let Some(deployment) = args.deployment {
        (deployment.project(args.project, client, output).await?, deployment.id)
    } else {
        let name = args.project.choose(client, output).await?;
        let id = previous(&name, &projects::detail(&name, client).await?.deployments)?;
        (name, id)
    };
    let path = format!("/projects/{name}/deployments/{id}/activate");
    let answer = client.post::<Activated>(&path, &json!({})).await.map_err(|failure| match failure.kind {
        FailureClass::NotFound => failure.with_hint(format!("`svc deployments --project {name}` lists what there is.")),
        FailureClass::Conflict => failure.with_hint("Only a deployment that was live once can be served again."),
        _ => failure,
    })?;
    output.success(&format!("{name} serves {id} again."));
    propagation::report(output, "Live", answer.propagation);
    let active = answer.body.active_deployment_id;
    let document = json!({
        "ok": true, "project": name, "active_deployment_id": active, "propagation": answer.propagation,
    });
    output.result(&document, || active.to_string())
}

/// Returns the newest deployment that was live before the live one. This is not always the newest superseded one: after
/// a rollback, that is the deployment that was rolled back.
fn previous(name: &ProjectName, newest_first: &[Deployment]) -> Result<DeploymentId, Failure> {
    newest_first
        .iter()
        .skip_while(|deployment| !deployment.active)
        .find(|deployment| deployment.status == DeploymentStatus::Superseded)
        .map(|deployment| deployment.id.clone())
        .ok_or_else(|| {
            Failure::new(
                FailureClass::NotFound,
                "nothing_to_roll_back_to",
                format!("{name} has no deployment before the live one."),
            )
            .with_hint(format!("Name one of `svc deployments --project {name}`: svc rollback dep_…"))
        })
}

pub(crate) fn status_word(status: DeploymentStatus) -> &'static str {
    match status {
        DeploymentStatus::Uploading => "uploading",
        DeploymentStatus::Live => "live",
        DeploymentStatus::Superseded => "superseded",
        DeploymentStatus::Failed => "failed",
    }
}

fn line(deployment: &Deployment, output: Output) -> Vec<String> {
    let marker = if deployment.active { "●" } else { "" };
    let commit = deployment.git_sha.as_deref().map(|sha| sha.chars().take(SHORT_SHA).collect()).unwrap_or_default();
    vec![
        marker.to_owned(),
        deployment.id.to_string(),
        status_word(deployment.status).to_owned(),
        output.relative(deployment.created_at),
        count(deployment.files.into(), "file"),
        size(deployment.bytes),
        commit,
        deployment.created_by.clone().unwrap_or_default(),
        // Empty if there is no expiry: the deployment is live, or among the number that the plan keeps.
        deployment.expires_at.map(|end| output.relative(end)).unwrap_or_default(),
        deployment.failure.clone().unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(n: u8, status: DeploymentStatus) -> Deployment {
        let created_at = domain::Timestamp::from_unix_millis(i64::from(n));
        Deployment {
            id: DeploymentId::new(created_at),
            status,
            url: String::new(),
            created_at,
            files: 1,
            bytes: 1,
            cli_version: None,
            git_sha: None,
            created_by: None,
            active: status == DeploymentStatus::Live,
            expires_at: None,
            failure: None,
        }
    }

    #[test]
    fn rolling_back_goes_to_what_was_live_before() {
        use DeploymentStatus::{Failed, Live, Superseded};
        let name = "docs".parse().unwrap();
        let history = |states: &[DeploymentStatus]| -> Vec<Deployment> {
            states.iter().zip((0..100).rev()).map(|(status, n)| deployment(n, *status)).collect()
        };
        let all = history(&[Live, Failed, Superseded, Superseded]);
        assert_eq!(previous(&name, &all).unwrap(), all[2].id);
        let again = history(&[Superseded, Failed, Live, Superseded]);
        assert_eq!(previous(&name, &again).unwrap(), again[3].id);
        assert!(previous(&name, &history(&[Live, Failed])).is_err());
        assert!(previous(&name, &history(&[Superseded, Live])).is_err());
        assert!(previous(&name, &[]).is_err());
    }
}
