//! `svc tokens`.

use api::{
    Done,
    tokens::{
        CreateOrgToken, CreateToken, CreatedOrgToken, CreatedToken, OrgTokenKind, OrgTokenList, Token, TokenList,
        UserTokenKind,
    },
};
use clap::{Subcommand, ValueEnum};
use domain::{OrgName, TokenId, limits};

use super::orgs;
use crate::{
    client::Client,
    failure::{Failure, Kind as FailureKind},
    output::Output,
};

/// List your API tokens, or an organization's, or change them.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct Tokens {
    /// The organization whose tokens are meant, instead of your own
    #[arg(long, global = true, value_name = "ORG")]
    org: Option<OrgName>,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the tokens, newest first
    #[command(alias = "ls")]
    List,
    /// Create a token; its secret is shown only now
    Create {
        /// What the token works against [default: cli, or deploy for an organization]
        #[arg(long, value_enum)]
        kind: Option<Kind>,
        /// A label to recognize it by
        #[arg(long, value_parser = label)]
        label: Option<String>,
    },
    /// Revoke a token: it stops working immediately
    #[command(alias = "rm")]
    Revoke {
        /// The token's id: tok_…
        id: TokenId,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// For svc and the control plane, such as a token for CI
    Cli,
    /// For the AI gateway
    Ai,
    /// For deploying an organization's projects
    Deploy,
}

pub(crate) async fn run(tokens: Tokens, client: &Client, output: Output) -> anyhow::Result<()> {
    let org = tokens.org.as_ref();
    match (tokens.action.unwrap_or(Action::List), org) {
        (Action::List, None) => list(client, output).await,
        (Action::List, Some(org)) => list_of_org(org, client, output).await,
        (Action::Create { kind, label }, None) => create(kind, label, client, output).await,
        (Action::Create { kind, label }, Some(org)) => create_for_org(org, kind, label, client, output).await,
        (Action::Revoke { id }, _) => revoke(org, &id, client, output).await,
    }
}

async fn list(client: &Client, output: Output) -> anyhow::Result<()> {
    let tokens = client.list("/tokens", |page: TokenList| (page.tokens, page.next_cursor)).await?;
    output.list("tokens", &tokens, &["TOKEN", "KIND", "LABEL", "CREATED", "STATE"], "No tokens.", |token| {
        let state = token.revoked_at.map_or("active".to_owned(), |at| format!("revoked {}", output.relative(at)));
        vec![
            token.id.to_string(),
            token.kind.as_str().to_owned(),
            token.label.clone().unwrap_or_default(),
            output.relative(token.created_at),
            state,
        ]
    })
}

async fn list_of_org(org: &OrgName, client: &Client, output: Output) -> anyhow::Result<()> {
    let path = format!("/orgs/{org}/tokens");
    let tokens = client.list(&path, |page: OrgTokenList| (page.tokens, page.next_cursor)).await;
    let tokens = tokens.map_err(|failure| orgs::unknown(org, failure))?;
    let nothing = format!("No tokens. Make one for CI: svc tokens create --org {org}");
    output.list("tokens", &tokens, &["TOKEN", "KIND", "LABEL", "CREATED", "BY"], &nothing, |token| {
        vec![
            token.record.id.to_string(),
            token.record.kind.as_str().to_owned(),
            token.record.label.clone().unwrap_or_default(),
            output.relative(token.record.created_at),
            token.created_by.clone().unwrap_or_default(),
        ]
    })
}

async fn create(kind: Option<Kind>, label: Option<String>, client: &Client, output: Output) -> anyhow::Result<()> {
    let kind = match kind {
        None | Some(Kind::Cli) => UserTokenKind::Cli,
        Some(Kind::Ai) => UserTokenKind::Ai,
        Some(Kind::Deploy) => {
            return Err(Failure::usage("A deploy token belongs to an organization.")
                .with_hint("Add `--org NAME`.")
                .into());
        }
    };
    let created = client.post::<CreatedToken>("/tokens", &CreateToken { kind, label }).await?.body;
    keep_it(output, &created.record);
    output.result(&created, || created.token.clone())
}

async fn create_for_org(
    org: &OrgName,
    kind: Option<Kind>,
    label: Option<String>,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let kind = match kind {
        None | Some(Kind::Deploy) => OrgTokenKind::Deploy,
        Some(Kind::Ai) => OrgTokenKind::Ai,
        Some(Kind::Cli) => {
            return Err(Failure::usage("A cli token belongs to a person.")
                .with_hint("Leave `--org` out, or make a deploy token: --kind deploy.")
                .into());
        }
    };
    let body = CreateOrgToken { kind, label };
    let answer = client.post::<CreatedOrgToken>(&format!("/orgs/{org}/tokens"), &body).await;
    let created = answer.map_err(|failure| orgs::unknown(org, failure))?.body;
    keep_it(output, &created.record.record);
    if kind == OrgTokenKind::Deploy {
        output.note("In CI: set SVC_TOKEN to it, and run `svc deploy DIR --project NAME --no-create`.");
    }
    output.result(&created, || created.token.clone())
}

fn keep_it(output: Output, token: &Token) {
    output.success(&format!("Created {}. Keep its secret now: it is not shown again.", token.id));
}

async fn revoke(org: Option<&OrgName>, id: &TokenId, client: &Client, output: Output) -> anyhow::Result<()> {
    let path = org.map_or_else(|| format!("/tokens/{id}"), |org| format!("/orgs/{org}/tokens/{id}"));
    let answer = client.delete::<Done>(&path).await.map_err(|failure| match (failure.kind, org) {
        (FailureKind::NotFound, None) => Failure { message: format!("You have no active token {id}."), ..failure }
            .with_hint("`svc tokens` lists yours; an organization's is revoked with --org."),
        (FailureKind::NotFound, Some(org)) => {
            Failure { message: format!("{org} has no active token {id}."), ..failure }
                .with_hint(format!("`svc tokens --org {org}` lists them."))
        }
        _ => failure,
    })?;
    output.success(&format!("Revoked {id}."));
    super::propagation::report(output, "Gone", answer.propagation);
    output.result(&answer.body, String::new)
}

pub(super) fn label(text: &str) -> Result<String, String> {
    let most = limits::TOKEN_LABEL_CHARS;
    if text.chars().count() <= most {
        Ok(text.to_owned())
    } else {
        Err(format!("a label has at most {most} characters"))
    }
}
