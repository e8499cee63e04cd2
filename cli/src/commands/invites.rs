//! `svc invites`.

use api::{
    Done,
    invites::{CreateInvite, CreatedInvite, InviteList, InvitePreview},
    orgs::Org,
};
use clap::{Subcommand, ValueEnum};
use domain::{EmailAddress, InviteId, OrgName, opaque::OpaqueSecret, role::InviteRole};
use serde_json::json;

use super::orgs;
use crate::{
    client::Client,
    failure::{Failure, FailureClass},
    options::OrgOption,
    output::{self, Output},
};

/// Invite people to an organization, or accept an invite.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct InvitesArgs {
    #[command(flatten)]
    org: OrgOption,
    #[command(subcommand)]
    action: Option<InvitesCommand>,
}

#[derive(Debug, Subcommand)]
enum InvitesCommand {
    /// List the pending invites, newest first
    #[command(alias = "ls")]
    List,
    /// Invite somebody; the link is shown only once
    Create {
        /// The email address to send the invitation to
        email: EmailAddress,
        /// The role they will have
        #[arg(long, value_enum, default_value_t = InviteRoleArg::Member)]
        role: InviteRoleArg,
    },
    /// Revoke an invite: its link stops working
    #[command(alias = "rm")]
    Revoke {
        /// The invite's id: inv_…
        id: InviteId,
    },
    /// Show details of an invite
    Preview {
        /// The invite's link, or the secret at its end
        // One secret in 64 begins with a hyphen.
        #[arg(value_parser = parse_invite, allow_hyphen_values = true)]
        invite: String,
    },
    /// Accept an invite and join its organization
    Accept {
        /// The invite's link, or the secret at its end
        // One secret in 64 begins with a hyphen.
        #[arg(value_parser = parse_invite, allow_hyphen_values = true)]
        invite: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum InviteRoleArg {
    /// Works on the organization's projects
    Member,
    /// Also deletes projects, manages members, invites and tokens
    Admin,
}

pub(crate) async fn run(invites: InvitesArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let org = invites.org;
    match invites.action.unwrap_or(InvitesCommand::List) {
        InvitesCommand::List => list(&org.named()?, client, output).await,
        InvitesCommand::Create { email, role } => create(&org.named()?, email, role, client, output).await,
        InvitesCommand::Revoke { id } => revoke(&org.named()?, &id, client, output).await,
        InvitesCommand::Preview { invite } => preview(&invite, client, output).await,
        InvitesCommand::Accept { invite } => accept(&invite, client, output).await,
    }
}

async fn list(org: &OrgName, client: &Client, output: Output) -> anyhow::Result<()> {
    let path = format!("/orgs/{org}/invites");
    let invites = client.list(&path, |page: InviteList| (page.invites, page.next_cursor)).await;
    let invites = invites.map_err(|failure| orgs::unknown(org, failure))?;
    let nothing = format!("Nobody is invited. Invite somebody: svc invites create EMAIL --org {org}");
    output.list("invites", &invites, &["INVITE", "FOR", "AS", "BY", "EXPIRES"], &nothing, |invite| {
        vec![
            invite.id.to_string(),
            invite.email.to_string(),
            role_word(invite.role).to_owned(),
            invite.invited_by.clone().unwrap_or_default(),
            output.relative(invite.expires_at),
        ]
    })
}

async fn create(
    org: &OrgName,
    email: EmailAddress,
    role: InviteRoleArg,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let role = match role {
        InviteRoleArg::Member => InviteRole::Member,
        InviteRoleArg::Admin => InviteRole::Admin,
    };
    let body = CreateInvite { email, role };
    let answer = client.post::<CreatedInvite>(&format!("/orgs/{org}/invites"), &body).await;
    let created = answer.map_err(|failure| orgs::unknown(org, failure))?.body;
    let email = &created.invite.email;
    output.success(&format!("Invited {email} as {}.", role_word(role)));
    if created.email_sent {
        output.note("The invitation was sent. The link is this one; it works once, and for 14 days:");
    } else if !output.is_json() {
        output::warning("No mail was sent: give them this link yourself. It works once, and for 14 days:");
    }
    output.result(&created, || created.invite_url.clone())
}

async fn revoke(org: &OrgName, id: &InviteId, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.delete::<Done>(&format!("/orgs/{org}/invites/{id}")).await;
    let answer = answer.map_err(|failure| match failure.kind {
        FailureClass::NotFound => Failure { message: format!("{org} has no pending invite {id}."), ..failure }
            .with_hint(format!("`svc invites --org {org}` lists them.")),
        _ => failure,
    })?;
    output.success(&format!("Revoked {id}."));
    output.result(&answer.body, String::new)
}

async fn preview(invite: &str, client: &Client, output: Output) -> anyhow::Result<()> {
    let preview = client.get_unsigned::<InvitePreview>(&format!("/invites/{invite}")).await.map_err(over)?;
    output.result(&preview, || {
        let org = &preview.org;
        let shown = preview.display_name.as_ref().map_or_else(|| org.to_string(), |shown| format!("{shown} ({org})"));
        let sender = preview.invited_by.as_deref().unwrap_or("Somebody");
        let (role, expires) = (role_word(preview.role), output.relative(preview.expires_at));
        format!("{sender} invites you to {shown} as {role}. The invite expires {expires}.\nJoin: svc invites accept {invite}")
    })
}

async fn accept(invite: &str, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.post::<Org>(&format!("/invites/{invite}/accept"), &json!({})).await.map_err(over)?;
    let org = &answer.body;
    output.success(&format!("You are {} of {} now.", org.role, org.name));
    output.note(&format!("Its projects: svc projects list --org {}", org.name));
    output.result(org, || org.name.to_string())
}

fn over(failure: Failure) -> Failure {
    if failure.kind == FailureClass::NotFound {
        return failure.with_hint("An invite works once, and for 14 days. Ask whoever sent it for a new one.");
    }
    failure
}

fn role_word(role: InviteRole) -> &'static str {
    match role {
        InviteRole::Member => "member",
        InviteRole::Admin => "admin",
    }
}

/// Parses an invite's secret, or its link.
fn parse_invite(text: &str) -> Result<String, String> {
    let end = text.trim().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let end = end.split(['?', '#']).next().unwrap_or_default();
    let secret = OpaqueSecret::parse(end).ok_or("this is not an invite's link")?;
    Ok(secret.expose().to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse_invite;

    #[test]
    fn an_invite_is_named_by_its_link_or_the_end_of_it() {
        let end = "A".repeat(43);
        for text in [end.clone(), format!("https://app.svc.localhost:8443/invites/{end}"), format!(" /invites/{end}/")]
        {
            assert_eq!(parse_invite(&text).as_deref(), Ok(&*end), "{text}");
        }
        assert!(parse_invite("https://app.svc.localhost/invites/").is_err());
        assert!(parse_invite("inv_00000000000000000000").is_err());
    }
}
