//! `svc tokens`.

use clap::{Subcommand, ValueEnum};
use common::{
    api::{
        Done,
        tokens::{CreateToken, CreatedToken, TokenList, UserTokenKind},
    },
    domain::{TokenId, limits, token::TokenKind},
};
use serde_json::json;

use crate::{
    client::Client,
    failure::{Failure, Kind as FailureKind},
    output::{Output, table},
};

/// List your API tokens, or change them.
#[derive(Debug, clap::Args)]
pub(crate) struct Tokens {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List them, newest first
    #[command(alias = "ls")]
    List,
    /// Create a token; its secret is shown this once
    Create {
        /// What it works against
        #[arg(long, value_enum, default_value_t = Kind::Cli)]
        kind: Kind,
        /// A name to know it by
        #[arg(long, value_parser = label)]
        label: Option<String>,
    },
    /// Revoke a token: it stops working at once
    #[command(alias = "rm")]
    Revoke {
        /// Its id: tok_…
        id: TokenId,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// For svc and the control plane, such as a token for CI
    Cli,
    /// For the AI gateway
    Ai,
}

pub(crate) async fn run(tokens: Tokens, client: &Client, output: Output) -> anyhow::Result<()> {
    match tokens.action.unwrap_or(Action::List) {
        Action::List => list(client, output).await,
        Action::Create { kind, label } => create(kind, label, client, output).await,
        Action::Revoke { id } => revoke(&id, client, output).await,
    }
}

async fn list(client: &Client, output: Output) -> anyhow::Result<()> {
    let tokens = client.list("/tokens", |page: TokenList| (page.tokens, page.next_cursor)).await?;
    output.result(&json!({"tokens": tokens}), || {
        let rows: Vec<Vec<String>> = tokens
            .iter()
            .map(|token| {
                let kind = match token.kind {
                    TokenKind::Cli => "cli",
                    TokenKind::Ai => "ai",
                    TokenKind::Deploy => "deploy",
                };
                let state =
                    token.revoked_at.map_or("active".to_owned(), |at| format!("revoked {}", output.relative(at)));
                vec![
                    token.id.to_string(),
                    kind.to_owned(),
                    token.label.clone().unwrap_or_default(),
                    output.relative(token.created_at),
                    state,
                ]
            })
            .collect();
        table(&["TOKEN", "KIND", "LABEL", "CREATED", "STATE"], &rows, "No tokens.")
    })
}

async fn create(kind: Kind, label: Option<String>, client: &Client, output: Output) -> anyhow::Result<()> {
    let kind = match kind {
        Kind::Cli => UserTokenKind::Cli,
        Kind::Ai => UserTokenKind::Ai,
    };
    let created = client.post::<CreatedToken>("/tokens", &CreateToken { kind, label }).await?.body;
    output.success(&format!("Created {}. Keep its secret now: it is not shown again.", created.record.id));
    output.result(&created, || created.token.clone())
}

async fn revoke(id: &TokenId, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.delete::<Done>(&format!("/tokens/{id}")).await.map_err(|failure| match failure.kind {
        FailureKind::NotFound => Failure { message: format!("You have no active token {id}."), ..failure }
            .with_hint("`svc tokens` lists yours."),
        _ => failure,
    })?;
    output.success(&format!("Revoked {id}."));
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
