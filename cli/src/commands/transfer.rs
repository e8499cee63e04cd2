//! `svc transfer`.

use api::projects::{Project, TransferProject};
use clap_complete::engine::ArgValueCandidates;
use domain::{OrgName, ProjectName};
use serde_json::json;

use super::projects;
use crate::{client::Client, complete, failure::Failure, options::ProjectOption, output::Output};

/// Move a project into an organization, or out of one.
#[derive(Debug, clap::Args)]
pub(crate) struct TransferArgs {
    /// The organization that will own the project; you must belong to it
    #[arg(
        value_name = "ORG", required_unless_present_any = ["personal", "to"], conflicts_with_all = ["personal", "to"],
        add = ArgValueCandidates::new(complete::orgs),
    )]
    org: Option<OrgName>,
    /// The organization that will own the project, as an option as in other commands
    #[arg(long = "org", id = "to", value_name = "ORG", conflicts_with = "personal", add = ArgValueCandidates::new(complete::orgs))]
    to: Option<OrgName>,
    /// Make it your personal project; you must be an admin of the organization
    #[arg(long)]
    personal: bool,
    #[command(flatten)]
    project: ProjectOption,
}

pub(crate) async fn run(transfer: TransferArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let name = transfer.project.choose(client, output).await?;
    let org = transfer.org.or(transfer.to).filter(|_| !transfer.personal).map(|org| org.to_string());
    let body = TransferProject { org: org.clone() };
    let answer = client.post::<Project>(&format!("/projects/{name}/transfer"), &body).await;
    let answer = answer.map_err(|failure| explain(&name, org.as_deref(), failure))?;
    match &org {
        Some(org) => output.success(&format!("{name} belongs to {org} now.")),
        None => output.success(&format!("{name} is your personal project now.")),
    }
    super::propagation::report(output, "In force", answer.propagation);
    output.result(&json!({"project": answer.body, "propagation": answer.propagation}), String::new)
}

fn explain(name: &ProjectName, org: Option<&str>, failure: Failure) -> Failure {
    match (&*failure.code, org) {
        ("not_found", Some(org)) if failure.message.contains("organization") => {
            Failure { message: format!("You belong to no organization {org}."), ..failure }
                .with_hint("`svc orgs` lists yours.")
        }
        ("invalid_request", None) => failure.with_hint(format!("For example: svc access public --project {name}")),
        _ => projects::unknown(name, failure),
    }
}
