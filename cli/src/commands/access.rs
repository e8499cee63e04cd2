//! `svc access`.

use api::access::AccessChanged;
use clap::Subcommand;
use domain::{ProjectName, access::AccessMode};
use serde_json::json;

use super::{password, projects};
use crate::{client::Client, failure::Failure, options::ProjectOption, output::Output};

/// Show or change who may see a site.
#[derive(Debug, clap::Args)]
pub(crate) struct AccessArgs {
    #[command(subcommand)]
    mode: Option<AccessCommand>,
    #[command(flatten)]
    project: ProjectOption,
}

#[derive(Debug, Subcommand)]
enum AccessCommand {
    /// Make the site public
    Public,
    /// Require a password
    Password {
        /// The password, or - to read it from stdin [default: asked for on a terminal, else the password set before]
        password: Option<String>,
    },
    /// Allow only members of the organization that owns it
    Org,
}

pub(crate) async fn run(access: AccessArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let name = access.project.choose(client, output).await?;
    match access.mode {
        None => {
            let mode = projects::detail(&name, client).await?.access.mode;
            output.result(&json!({"project": name, "mode": mode}), || match mode {
                AccessMode::Public => format!("{name} is public."),
                AccessMode::Password => format!("{name} asks for a password."),
                AccessMode::Org => format!("{name} is for the members of its organization."),
            })
        }
        Some(AccessCommand::Public) => change(&name, &json!({"mode": AccessMode::Public}), client, output).await,
        Some(AccessCommand::Org) => change(&name, &json!({"mode": AccessMode::Org}), client, output).await,
        Some(AccessCommand::Password { password }) => {
            let mut body = json!({"mode": AccessMode::Password});
            let password = match password {
                Some(text) => Some(password::read(&text, output)?),
                None if output.can_ask() => password::ask("Password (empty for the one that was set before): ")?,
                None => None,
            };
            if let Some(password) = password {
                body["password"] = password.expose().into();
            }
            change(&name, &body, client, output).await
        }
    }
}

async fn change(name: &ProjectName, body: &serde_json::Value, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.put::<AccessChanged>(&format!("/projects/{name}/access"), body).await;
    let answer = answer.map_err(|failure| match &*failure.code {
        "invalid_request" if body["mode"] == "org" => Failure {
            message: format!("{name} is personal: it has no organization whose members could see it."),
            ..failure
        }
        .with_hint(format!("Move it into an organization first: svc transfer ORG --project {name}")),
        "invalid_request" if failure.message.contains("is missing") => {
            Failure { message: format!("{name} has no password yet that could be kept."), ..failure }
                .with_hint(format!("Give one: svc access password - --project {name}"))
        }
        _ => projects::unknown(name, failure),
    })?;
    let told = match answer.body.mode {
        AccessMode::Public => "Everybody may see",
        AccessMode::Password => "A password now guards",
        AccessMode::Org => "Only members of its organization see",
    };
    output.success(&format!("{told} {name}."));
    super::propagation::report(output, "In force", answer.propagation);
    output.result(
        &json!({"ok": true, "project": name, "mode": answer.body.mode, "propagation": answer.propagation}),
        String::new,
    )
}
