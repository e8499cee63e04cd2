//! `svc vcs`: installations at the code host, and the organizations they are shared with.

use api::{
    Done,
    vcs::{Installation, InstallationList, ShareInstallation},
};
use clap::Subcommand;
use domain::OrgName;

use crate::{
    client::Client,
    failure::{Failure, FailureClass},
    options::OrgOption,
    output::Output,
};

/// List the code host's installations that you may use, or share them.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct VcsArgs {
    #[command(flatten)]
    org: OrgOption,
    #[command(subcommand)]
    action: Option<VcsCommand>,
}

#[derive(Debug, Subcommand)]
enum VcsCommand {
    /// List the installations, newest first
    #[command(alias = "ls")]
    List,
    /// Let an organization's members link its projects to your installation's repositories
    Share {
        /// The installation's id, as shown by `svc vcs`
        #[arg(value_parser = parse_id)]
        id: i64,
    },
    /// Stop sharing an installation, which unlinks the organization's projects that are linked through it
    Unshare {
        /// The installation's id
        #[arg(value_parser = parse_id)]
        id: i64,
    },
}

pub(crate) async fn run(vcs: VcsArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    match vcs.action.unwrap_or(VcsCommand::List) {
        VcsCommand::List => list(client, output).await,
        VcsCommand::Share { id } => share(id, &vcs.org.named()?, client, output).await,
        VcsCommand::Unshare { id } => {
            let org = vcs.org.named()?;
            let path = format!("/orgs/{org}/installations/{id}");
            let answer = client.delete::<Done>(&path).await.map_err(|failure| unknown(id, failure))?;
            output.success(&format!("{org} can use installation {id} no more."));
            output.result(&answer.body, String::new)
        }
    }
}

pub(super) async fn installations(client: &Client) -> Result<Vec<Installation>, Failure> {
    Ok(client.get::<InstallationList>("/vcs").await?.body.installations)
}

async fn list(client: &Client, output: Output) -> anyhow::Result<()> {
    let installations = installations(client).await?;
    output.list(
        "installations",
        &installations,
        &["ID", "ACCOUNT", "KIND", "MINE", "SHARED WITH"],
        "No installations. Install the app at the code host, on the account whose repositories you want to deploy.",
        |installation| {
            let shared = match (&installation.org, &installation.shared_by) {
                (Some(org), Some(by)) => format!("{org}, by {by}"),
                _ => "-".to_owned(),
            };
            vec![
                installation.id.to_string(),
                installation.account.clone(),
                installation.account_type.to_lowercase(),
                if installation.mine { "yes" } else { "no" }.to_owned(),
                shared,
            ]
        },
    )
}

async fn share(id: i64, org: &OrgName, client: &Client, output: Output) -> anyhow::Result<()> {
    let body = ShareInstallation { installation_id: id };
    let answer = client.post::<Installation>(&format!("/orgs/{org}/installations"), &body).await;
    let installation = answer.map_err(|failure| unknown(id, failure))?.body;
    output.success(&format!("{org} can use the installation on {}.", installation.account));
    output.result(&installation, String::new)
}

pub(super) fn parse_id(text: &str) -> Result<i64, String> {
    let id = text.parse().ok().filter(|id| *id > 0);
    id.ok_or_else(|| "an installation's id is a number, which `svc vcs` shows".to_owned())
}

fn unknown(id: i64, failure: Failure) -> Failure {
    if failure.kind == FailureClass::NotFound {
        let message = format!("There is no such organization of yours, or no installation {id} that is yours there.");
        return Failure { message, ..failure }.with_hint("`svc vcs` lists installations, `svc orgs` organizations.");
    }
    failure
}
