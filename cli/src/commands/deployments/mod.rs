//! `svc deployments` and `svc rollback`.

mod files;

use api::deployments::{Activated, Deployment, DeploymentList};
use clap::Subcommand;
use domain::{DeploymentId, ProjectName, deployment::DeploymentStatus};
use serde_json::json;

use super::{projects, propagation};
use crate::{
    client::Client,
    failure::{Failure, Kind},
    options::ProjectOption,
    output::{Output, count, size},
    project,
};

/// Characters of a commit id that are shown.
const SHORT_SHA: usize = 8;

/// List a project's deployments, newest first, or show what is in one.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct Deployments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    project: ProjectOption,
    /// How many of the newest deployments to list
    #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..=100))]
    limit: u8,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the files of a deployment
    Files {
        /// The deployment, by id or address
        #[arg(value_parser = deployment_id)]
        deployment: DeploymentId,
    },
    /// Show how the files of a deployment differ from those of another
    Diff {
        /// The deployment, by id or address
        #[arg(value_parser = deployment_id)]
        deployment: DeploymentId,
        /// The deployment to compare with, by id or address [default: the one made before]
        #[arg(value_parser = deployment_id)]
        other: Option<DeploymentId>,
    },
}

/// Serve an earlier deployment again, without an upload.
#[derive(Debug, clap::Args)]
pub(crate) struct Rollback {
    /// The deployment, by id or address [default: the newest one before the live one]
    #[arg(value_parser = deployment_id)]
    deployment: Option<DeploymentId>,
    #[command(flatten)]
    project: ProjectOption,
}

pub(crate) async fn run(args: Deployments, client: &Client, output: Output) -> anyhow::Result<()> {
    let name = project::named_or_remembered(args.project.project, None)?;
    match args.action {
        None => list(&name, args.limit, client, output).await,
        Some(Action::Files { deployment }) => files::list(&name, &deployment, client, output).await,
        Some(Action::Diff { deployment, other }) => {
            files::diff(&name, &deployment, other.as_ref(), client, output).await
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

pub(crate) async fn rollback(args: Rollback, client: &Client, output: Output) -> anyhow::Result<()> {
    let name = project::named_or_remembered(args.project.project, None)?;
    let id = match args.deployment {
        Some(id) => id,
        None => previous(&name, &projects::detail(&name, client).await?.deployments)?,
    };
    let path = format!("/projects/{name}/deployments/{id}/activate");
    let answer = client.post::<Activated>(&path, &json!({})).await.map_err(|failure| match failure.kind {
        Kind::NotFound => failure.with_hint(format!("`svc deployments --project {name}` lists what there is.")),
        Kind::Conflict => failure.with_hint("Only a deployment that was live once can be served again."),
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

/// The newest deployment that was live before the live one. Not merely the newest superseded one: after one roll back,
/// that would be the very deployment one fled from.
fn previous(name: &ProjectName, newest_first: &[Deployment]) -> Result<DeploymentId, Failure> {
    newest_first
        .iter()
        .skip_while(|deployment| !deployment.active)
        .find(|deployment| deployment.status == DeploymentStatus::Superseded)
        .map(|deployment| deployment.id.clone())
        .ok_or_else(|| {
            Failure::new(
                Kind::NotFound,
                "nothing_to_roll_back_to",
                format!("{name} has no deployment before the live one."),
            )
            .with_hint(format!("Name one of `svc deployments --project {name}`: svc rollback dep_…"))
        })
}

fn line(deployment: &Deployment, output: Output) -> Vec<String> {
    let marker = if deployment.active { "●" } else { "" };
    let status = match deployment.status {
        DeploymentStatus::Uploading => "uploading",
        DeploymentStatus::Live => "live",
        DeploymentStatus::Superseded => "superseded",
        DeploymentStatus::Failed => "failed",
    };
    let commit = deployment.git_sha.as_deref().map(|sha| sha.chars().take(SHORT_SHA).collect()).unwrap_or_default();
    vec![
        marker.to_owned(),
        deployment.id.to_string(),
        status.to_owned(),
        output.relative(deployment.created_at),
        count(deployment.files.into(), "file"),
        size(deployment.bytes),
        commit,
        deployment.created_by.clone().unwrap_or_default(),
        // Nothing where no time is settled: it is the live one, or one that the plan keeps for its number.
        deployment.expires_at.map(|end| output.relative(end)).unwrap_or_default(),
        deployment.failure.clone().unwrap_or_default(),
    ]
}

/// Reads a deployment's id from the command line: with or without its prefix, or from a deployment's own address.
fn deployment_id(text: &str) -> Result<DeploymentId, String> {
    let label = project::first_label(text).unwrap_or(text);
    let body = label.split_once("--").map_or(label, |(body, _)| body);
    body.parse()
        .or_else(|_| DeploymentId::from_body(body))
        .map_err(|_| "a deployment is named by its id (dep_…) or its own address".to_owned())
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

    #[test]
    fn deployments_are_named_by_id_or_address() {
        let id = "dep_0123456789abcdefghij";
        for text in [id, "0123456789abcdefghij", "https://0123456789abcdefghij--docs.svc.localhost:8443/x"] {
            assert_eq!(deployment_id(text).unwrap().as_str(), id);
        }
        assert!(deployment_id("https://docs.svc.localhost").is_err());
    }
}
