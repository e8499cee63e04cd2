//! `svc members`.

use api::{
    Done,
    account::Account,
    orgs::{Member, SetRole},
};
use clap::{Subcommand, ValueEnum};
use domain::{OrgName, role};

use super::orgs;
use crate::{
    client::Client,
    failure::{Failure, FailureClass},
    options::OrgOption,
    output::{self, Output},
};

/// List an organization's members, or change them.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct MembersArgs {
    #[command(flatten)]
    org: OrgOption,
    #[command(subcommand)]
    action: Option<MembersCommand>,
}

#[derive(Debug, Subcommand)]
enum MembersCommand {
    /// List the members: owners first, then admins, then the others
    #[command(alias = "ls")]
    List,
    /// Change a member's role
    Role {
        /// The member's login at the code host
        #[arg(value_parser = parse_login)]
        login: String,
        /// The member's new role
        #[arg(value_enum)]
        role: MemberRoleArg,
    },
    /// Remove a member
    #[command(alias = "remove", alias = "delete")]
    Rm {
        /// The member's login at the code host
        #[arg(value_parser = parse_login)]
        login: String,
    },
    /// Leave the organization
    Leave,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum MemberRoleArg {
    /// Works on the organization's projects
    Member,
    /// Also deletes projects, manages members, invites and tokens
    Admin,
    /// Also changes roles and deletes the organization
    Owner,
}

impl From<MemberRoleArg> for role::Role {
    fn from(role: MemberRoleArg) -> Self {
        match role {
            MemberRoleArg::Member => Self::Member,
            MemberRoleArg::Admin => Self::Admin,
            MemberRoleArg::Owner => Self::Owner,
        }
    }
}

pub(crate) async fn run(members: MembersArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let org = members.org.named()?;
    match members.action.unwrap_or(MembersCommand::List) {
        MembersCommand::List => list(&org, client, output).await,
        MembersCommand::Role { login, role } => set_role(&org, &login, role.into(), client, output).await,
        MembersCommand::Rm { login } => remove(&org, &login, client, output).await,
        MembersCommand::Leave => leave(&org, client, output).await,
    }
}

const HEADINGS: [&str; 3] = ["LOGIN", "ROLE", "JOINED"];
const NOBODY: &str = "No members.";

fn line(member: &Member, output: Output) -> Vec<String> {
    vec![member.login.clone(), member.role.to_string(), output.relative(member.joined)]
}

pub(super) fn format_members(members: &[Member], output: Output) -> String {
    output::lines(members, &HEADINGS, NOBODY, |member| line(member, output))
}

async fn list(org: &OrgName, client: &Client, output: Output) -> anyhow::Result<()> {
    let members = orgs::detail(org, client).await?.members;
    output.list("members", &members, &HEADINGS, NOBODY, |member| line(member, output))
}

async fn set_role(org: &OrgName, login: &str, role: role::Role, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.put::<Member>(&format!("/orgs/{org}/members/{login}"), &SetRole { role }).await;
    let answer = answer.map_err(|failure| explained(org, login, failure))?;
    let article = if role == role::Role::Member { "a" } else { "an" };
    output.success(&format!("{} is {article} {role} of {org} now.", answer.body.login));
    output.result(&answer.body, String::new)
}

async fn remove(org: &OrgName, login: &str, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.delete::<Done>(&format!("/orgs/{org}/members/{login}")).await;
    let answer = answer.map_err(|failure| explained(org, login, failure))?;
    output.success(&format!("{login} is no member of {org} any more."));
    super::propagation::report(output, "Closed to them", answer.propagation);
    output.result(&answer.body, String::new)
}

async fn leave(org: &OrgName, client: &Client, output: Output) -> anyhow::Result<()> {
    let account = client.get::<Account>("/me").await?.body;
    let login = account.vcs_login.ok_or_else(|| {
        Failure::usage("This token belongs to no person.")
            .with_hint("Run `svc login`, or set SVC_TOKEN to a cli token.")
    })?;
    let answer = client.delete::<Done>(&format!("/orgs/{org}/members/{login}")).await;
    let answer = answer.map_err(|failure| match &*failure.code {
        "last_owner" => failure.with_hint(format!(
            "Make somebody else an owner (svc members role LOGIN owner --org {org}), or delete it (svc orgs delete {org})."
        )),
        _ => orgs::unknown(org, failure),
    })?;
    output.success(&format!("You have left {org}."));
    super::propagation::report(output, "Closed to you", answer.propagation);
    output.result(&answer.body, String::new)
}

fn explained(org: &OrgName, login: &str, failure: Failure) -> Failure {
    match &*failure.code {
        "last_owner" => failure.with_hint(format!("`svc members role LOGIN owner --org {org}` makes another owner.")),
        _ if failure.kind == FailureClass::NotFound => Failure {
            message: format!("There is no member {login} of {org}, or no such organization of yours."),
            ..failure
        }
        .with_hint(format!("`svc members --org {org}` lists them.")),
        _ => failure,
    }
}

/// Parses a login of the code host, of characters that need no escaping in a path.
fn parse_login(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let text = text.trim_start_matches('@');
    if !text.is_empty() && text.chars().all(allowed) && !text.starts_with('.') {
        Ok(text.to_owned())
    } else {
        Err("a login is made of letters, digits, -, _ and .".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::parse_login;

    #[test]
    fn logins_stay_one_segment_of_a_path() {
        assert_eq!(parse_login("@ada-lovelace").as_deref(), Ok("ada-lovelace"));
        for bad in ["", "@", "a/b", "..", "a b", "a?b", "%2f"] {
            assert!(parse_login(bad).is_err(), "{bad}");
        }
    }
}
