//! `svc orgs`.

use std::path::PathBuf;

use api::{
    Done,
    orgs::{CreateOrg, IconStored, Org, OrgDetail, OrgList, RenameOrg},
};
use clap::{ArgGroup, Subcommand};
use clap_complete::engine::ArgValueCandidates;
use domain::{OrgName, limits::ICON_BYTES, orgs::DisplayName};
use serde_json::json;

use crate::{
    client::Client,
    complete,
    failure::{Failure, FailureClass},
    output::{Output, count, size},
};

/// List your organizations, or change one.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct OrgsArgs {
    #[command(subcommand)]
    action: Option<OrgsCommand>,
}

#[derive(Debug, Subcommand)]
enum OrgsCommand {
    /// List your organizations with your role in each, newest first
    #[command(alias = "ls")]
    List,
    /// Create an organization with you as its owner
    Create {
        /// 3 to 40 characters of a-z, 0-9 and -; it cannot be changed later
        name: OrgName,
        /// The display name
        #[arg(long, value_name = "TEXT")]
        display_name: Option<DisplayName>,
    },
    /// Show an organization and its members
    Show {
        /// The organization's name
        #[arg(add = ArgValueCandidates::new(complete::orgs))]
        org: OrgName,
    },
    /// Change an organization's display name
    #[command(group = ArgGroup::new("what").required(true))]
    Rename {
        /// The organization's name
        #[arg(add = ArgValueCandidates::new(complete::orgs))]
        org: OrgName,
        /// The new display name
        #[arg(group = "what")]
        display_name: Option<DisplayName>,
        /// Remove the display name
        #[arg(long, group = "what")]
        clear: bool,
    },
    /// Set or remove an organization's icon
    #[command(group = ArgGroup::new("icon").required(true))]
    Icon {
        /// The organization's name
        #[arg(add = ArgValueCandidates::new(complete::orgs))]
        org: OrgName,
        /// A PNG, JPEG, WebP or GIF image of at most 512 KB
        #[arg(group = "icon")]
        file: Option<PathBuf>,
        /// Remove the icon
        #[arg(long, group = "icon")]
        remove: bool,
    },
    /// Have an organization without a plan of its own count against your plan
    TakeOver {
        /// The organization's name
        #[arg(add = ArgValueCandidates::new(complete::orgs))]
        org: OrgName,
    },
    /// Delete an organization, which must have no projects
    #[command(alias = "rm", alias = "remove")]
    Delete {
        /// The organization's name
        #[arg(add = ArgValueCandidates::new(complete::orgs))]
        org: OrgName,
    },
}

pub(crate) async fn run(orgs: OrgsArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    match orgs.action.unwrap_or(OrgsCommand::List) {
        OrgsCommand::List => list(client, output).await,
        OrgsCommand::Create { name, display_name } => create(name, display_name, client, output).await,
        OrgsCommand::Show { org } => show(&org, client, output).await,
        OrgsCommand::Rename { org, display_name, clear: _ } => rename(&org, display_name, client, output).await,
        OrgsCommand::Icon { org, file, remove: _ } => icon(&org, file, client, output).await,
        OrgsCommand::TakeOver { org } => take_over(&org, client, output).await,
        OrgsCommand::Delete { org } => delete(&org, client, output).await,
    }
}

/// Adds the next step to a 404 of an organization's routes.
pub(super) fn unknown(org: &OrgName, failure: Failure) -> Failure {
    if failure.kind == FailureClass::NotFound {
        return Failure { message: format!("You belong to no organization {org}."), ..failure }
            .with_hint("`svc orgs` lists yours; `svc orgs create` makes one.");
    }
    failure
}

/// Fetches an organization's details; a failure includes the next step.
pub(super) async fn detail(org: &OrgName, client: &Client) -> Result<OrgDetail, Failure> {
    let answer = client.get(&format!("/orgs/{org}")).await;
    Ok(answer.map_err(|failure| unknown(org, failure))?.body)
}

async fn list(client: &Client, output: Output) -> anyhow::Result<()> {
    let orgs = client.list("/orgs", |page: OrgList| (page.orgs, page.next_cursor)).await?;
    output.list(
        "orgs",
        &orgs,
        &["ORGANIZATION", "CALLED", "YOU ARE", "CREATED"],
        "No organizations yet. Share projects with others: svc orgs create NAME",
        |org| {
            let shown = org.display_name.as_ref().map(ToString::to_string).unwrap_or_default();
            vec![org.name.to_string(), shown, org.role.to_string(), output.relative(org.created_at)]
        },
    )
}

async fn create(
    name: OrgName,
    display_name: Option<DisplayName>,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let body = CreateOrg { name: name.clone(), display_name };
    let org = client.post::<Org>("/orgs", &body).await?.body;
    output.success(&format!("Created organization {name}. You are its owner."));
    output.note(&format!("Invite others: svc invites create EMAIL --org {name}"));
    output.note(&format!("Publish a folder there: svc deploy DIR --project NAME --org {name}"));
    output.result(&org, || name.to_string())
}

async fn show(name: &OrgName, client: &Client, output: Output) -> anyhow::Result<()> {
    let detail = detail(name, client).await?;
    output.result(&detail, || {
        let org = &detail.org;
        let shown = org.display_name.as_ref().map_or_else(|| name.to_string(), |shown| format!("{shown} ({name})"));
        let members = super::members::format_members(&detail.members, output);
        let projects = count(detail.projects, "project");
        format!("{shown}: {projects}, created {}, you are {}\n\n{members}", output.relative(org.created_at), org.role)
    })
}

async fn rename(
    name: &OrgName,
    display_name: Option<DisplayName>,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let body = RenameOrg { display_name };
    let answer = client.patch::<Org>(&format!("/orgs/{name}"), &body).await;
    let org = answer.map_err(|failure| unknown(name, failure))?.body;
    output.success(&match &org.display_name {
        Some(shown) => format!("{name} is called {shown} now."),
        None => format!("{name} is called by its name alone now."),
    });
    output.result(&org, String::new)
}

async fn icon(name: &OrgName, file: Option<PathBuf>, client: &Client, output: Output) -> anyhow::Result<()> {
    let path = format!("/orgs/{name}/icon");
    let Some(file) = file else {
        let answer = client.delete::<Done>(&path).await.map_err(|failure| match failure.kind {
            FailureClass::NotFound => {
                Failure { message: format!("{name} has no icon of its own, or is not yours."), ..failure }
                    .with_hint("`svc orgs` lists yours.")
            }
            _ => failure,
        })?;
        output.success(&format!("Removed the icon of {name}."));
        return output.result(&answer.body, String::new);
    };
    let unreadable = |error: std::io::Error| Failure::usage(format!("Cannot read {}: {error}.", file.display()));
    if std::fs::metadata(&file).map_err(unreadable)?.len() > ICON_BYTES as u64 {
        let most = size(ICON_BYTES as u64);
        return Err(Failure::limit(format!("{} is larger than {most}.", file.display()))
            .with_hint("Make the image smaller: 256 by 256 pixels are plenty.")
            .into());
    }
    let image = std::fs::read(&file).map_err(unreadable)?;
    let stored = client.put_bytes::<IconStored>(&path, image).await.map_err(|failure| match &*failure.code {
        "unsupported_media_type" => Failure {
            message: format!("{} is not an image that can be an icon, or is damaged.", file.display()),
            ..failure
        }
        .with_hint("Convert it to PNG, JPEG, WebP or GIF; SVG is not accepted."),
        _ => unknown(name, failure),
    })?;
    output.success(&format!("Set the icon of {name}."));
    let url = format!("{}{}", client.api.as_str().trim_end_matches('/'), stored.body.icon_url);
    output.result(&stored.body, || url)
}

async fn take_over(name: &OrgName, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.post::<Done>(&format!("/orgs/{name}/payer"), &json!({})).await;
    let answer = answer.map_err(|failure| unknown(name, failure))?;
    output.success(&format!("{name} counts against your plan now."));
    super::propagation::report(output, "In force", answer.propagation);
    output.result(&answer.body, String::new)
}

async fn delete(name: &OrgName, client: &Client, output: Output) -> anyhow::Result<()> {
    let what = format!("Deleting the organization {name} ends its members, invites and tokens for good.");
    output.confirm_by_name(&what, name.as_str())?;
    let answer = client.delete::<Done>(&format!("/orgs/{name}")).await.map_err(|failure| match &*failure.code {
        "org_not_empty" => failure.with_hint(format!(
            "`svc projects list --org {name}` lists them; `svc transfer` moves one, `svc projects rm` deletes one."
        )),
        "subscription_active" => failure.with_hint(format!(
            "`svc billing cancel --org {name}` ends it with the month that is paid; `svc billing --org {name}` says when."
        )),
        _ => unknown(name, failure),
    })?;
    output.success(&format!("Deleted {name}."));
    super::propagation::report(output, "Gone", answer.propagation);
    output.result(&answer.body, String::new)
}
