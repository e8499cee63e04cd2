//! `svc sessions`.

use api::{Done, sessions::SessionList};
use clap::Subcommand;
use domain::SessionId;

use crate::{
    client::Client,
    failure::{Failure, FailureClass},
    output::Output,
};

/// List the browsers in which you are signed in to the console, or sign out there.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    action: Option<SessionsCommand>,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// List the sessions, newest first
    #[command(alias = "ls")]
    List,
    /// Sign out in one browser, or in all of them
    #[command(alias = "rm")]
    End {
        /// The session's id: ses_…
        #[arg(required_unless_present = "all")]
        id: Option<SessionId>,
        /// End all of them, and every visit to a site restricted to members of an organization
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
}

pub(crate) async fn run(sessions: SessionsArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    match sessions.action.unwrap_or(SessionsCommand::List) {
        SessionsCommand::List => list(client, output).await,
        SessionsCommand::End { id: Some(id), .. } => end(&id, client, output).await,
        SessionsCommand::End { id: None, .. } => end_all(client, output).await,
    }
}

async fn list(client: &Client, output: Output) -> anyhow::Result<()> {
    let sessions = client.get::<SessionList>("/sessions").await?.body.sessions;
    output.list(
        "sessions",
        &sessions,
        &["SESSION", "BROWSER", "SIGNED IN", "LAST USED"],
        "You are signed in nowhere on the console. This command line has a token of its own: svc tokens",
        |session| {
            vec![
                session.id.to_string(),
                session.browser.clone(),
                output.relative(session.created_at),
                session.last_used_at.map(|time| output.relative(time)).unwrap_or_default(),
            ]
        },
    )
}

async fn end(id: &SessionId, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.delete::<Done>(&format!("/sessions/{id}")).await.map_err(|failure| match failure.kind {
        FailureClass::NotFound => Failure { message: format!("You have no session {id}."), ..failure }
            .with_hint("`svc sessions` lists yours."),
        _ => failure,
    })?;
    output.success(&format!("Ended {id}. Its next request is refused."));
    output.result(&answer.body, String::new)
}

async fn end_all(client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.delete::<Done>("/sessions").await?;
    output.success("You are signed out in every browser.");
    super::propagation::report(output, "In force", answer.propagation);
    output.result(&answer.body, String::new)
}
