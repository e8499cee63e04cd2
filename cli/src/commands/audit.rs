//! `svc audit` and `svc activity`.

use api::audit::{AuditActor, AuditEntry, AuditLog};
use clap_complete::engine::ArgValueCandidates;
use domain::{OrgName, audit::ActorKind};
use serde_json::{Map, Value};

use super::projects;
use crate::{
    client::Client,
    complete,
    failure::{Failure, FailureClass},
    options::ProjectOption,
    output::Output,
};

const PAGE: usize = 100;
const EMPTY: &str = "Nothing was recorded yet.";

/// Show who changed a project or an organization.
#[derive(Debug, clap::Args)]
pub(crate) struct AuditArgs {
    /// An organization, with all its projects
    #[arg(long, value_name = "ORG", add = ArgValueCandidates::new(complete::orgs))]
    org: Option<OrgName>,
    /// The number of newest entries to show
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    project: ProjectOption,
}

pub(crate) async fn run(audit: AuditArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let wanted = usize::try_from(audit.limit)?;
    let entries = if let Some(org) = &audit.org {
        let entries = read(&format!("/orgs/{org}/audit"), wanted, client).await;
        entries.map_err(|failure| no_org(org, failure))?
    } else {
        let name = audit.project.choose(client, output).await?;
        let entries = read(&format!("/projects/{name}/audit"), wanted, client).await;
        entries.map_err(|failure| projects::unknown(&name, failure))?
    };
    output.list("entries", &entries, &["WHEN", "WHO", "WHAT", "PROJECT", "DETAIL"], EMPTY, |entry| {
        vec![
            output.relative(entry.created_at),
            actor_name(&entry.actor),
            entry.action.clone(),
            entry.project.as_ref().map(ToString::to_string).unwrap_or_default(),
            detail(&entry.detail),
        ]
    })
}

/// Show what you did, and what was done to your account, projects and memberships.
#[derive(Debug, clap::Args)]
pub(crate) struct ActivityArgs {
    /// The number of newest entries to show
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

pub(crate) async fn activity(activity: &ActivityArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let entries = read("/activity", usize::try_from(activity.limit)?, client).await?;
    output.list("entries", &entries, &["WHEN", "WHO", "WHAT", "ORG", "PROJECT", "DETAIL"], EMPTY, |entry| {
        vec![
            output.relative(entry.created_at),
            actor_name(&entry.actor),
            entry.action.clone(),
            entry.org.as_ref().map(ToString::to_string).unwrap_or_default(),
            entry.project.as_ref().map(ToString::to_string).unwrap_or_default(),
            detail(&entry.detail),
        ]
    })
}

fn no_org(org: &OrgName, failure: Failure) -> Failure {
    match failure.kind {
        FailureClass::NotFound => Failure { message: format!("You belong to no organization {org}."), ..failure }
            .with_hint("`svc orgs` lists yours."),
        _ => failure,
    }
}

async fn read(path: &str, wanted: usize, client: &Client) -> Result<Vec<AuditEntry>, Failure> {
    let mut entries = Vec::new();
    let mut cursor = String::new();
    while entries.len() < wanted {
        let limit = (wanted - entries.len()).min(PAGE);
        let page = client.get::<AuditLog>(&format!("{path}?limit={limit}{cursor}")).await?.body;
        entries.extend(page.entries);
        let Some(next) = page.next_cursor else { break };
        cursor = format!("&cursor={next}");
    }
    Ok(entries)
}

fn actor_name(actor: &AuditActor) -> String {
    let name = actor.name.as_deref();
    match actor.kind {
        ActorKind::User => name.unwrap_or("somebody").to_owned(),
        ActorKind::DeployToken => format!("token {}", name.unwrap_or("without a label")),
        ActorKind::CodeHost => name.map_or("a push".to_owned(), |name| format!("a push by {name}")),
        ActorKind::Platform => "svc".to_owned(),
    }
}

/// Formats details as `key=value`, without quotes where they are not needed.
fn detail(detail: &Map<String, Value>) -> String {
    let said = detail.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| match value {
        Value::String(text) => format!("{key}={text}"),
        other => format!("{key}={other}"),
    });
    // Values chosen by users could contain characters that move the cursor.
    said.collect::<Vec<_>>().join(" ").replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn details_are_one_line_without_controls() {
        let said = json!({"email": "a\u{1b}[2J@b", "role": "admin", "to": null, "n": 2});
        assert_eq!(detail(said.as_object().unwrap()), "email=a [2J@b n=2 role=admin");
    }
}
