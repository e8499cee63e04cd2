//! `svc ai keys`: AI keys, which are a kind of token.

use api::tokens::{OrgTokenList, Token, TokenList};
use clap::Subcommand;
use domain::{OrgName, TokenId, token::TokenKind};

use super::{orgs, tokens};
use crate::{client::Client, credentials::Connection, options::OwnerOption, output::Output};

/// List your active AI keys, or an organization's, or revoke one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Without a command: list. `svc ai key create` makes one, `svc tokens limit` bounds its cost.")]
pub(crate) struct KeysArgs {
    #[command(flatten)]
    owner: OwnerOption,
    #[command(subcommand)]
    action: Option<KeysCommand>,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// List the keys, newest first
    #[command(alias = "ls")]
    List,
    /// Revoke a key: it stops working immediately
    #[command(alias = "rm")]
    Revoke {
        /// The key's id: tok_…
        id: TokenId,
    },
}

pub(crate) async fn run(keys: KeysArgs, connection: Connection, output: Output) -> anyhow::Result<()> {
    let (client, org) = (Client::new(connection)?, keys.owner.org.as_ref());
    match keys.action.unwrap_or(KeysCommand::List) {
        KeysCommand::List => list(org, &client, output).await,
        KeysCommand::Revoke { id } => tokens::revoke(org, &id, &client, output).await,
    }
}

async fn list(org: Option<&OrgName>, client: &Client, output: Output) -> anyhow::Result<()> {
    let tokens: Vec<Token> = match org {
        None => client.list("/tokens", |page: TokenList| (page.tokens, page.next_cursor)).await?,
        Some(org) => {
            let path = format!("/orgs/{org}/tokens");
            let tokens = client.list(&path, |page: OrgTokenList| (page.tokens, page.next_cursor)).await;
            let tokens = tokens.map_err(|failure| orgs::unknown(org, failure))?;
            tokens.into_iter().map(|token| token.record).collect()
        }
    };
    let is_key = |token: &Token| token.kind == TokenKind::Ai && token.revoked_at.is_none();
    let keys: Vec<Token> = tokens.into_iter().filter(is_key).collect();
    let option = org.map(|org| format!(" --org {org}")).unwrap_or_default();
    let nothing = format!("No AI keys. Make one: svc ai key create{option}");
    output.list("keys", &keys, &["KEY", "LABEL", "CREATED", "THIS MONTH"], &nothing, |key| {
        vec![
            key.id.to_string(),
            key.label.clone().unwrap_or_default(),
            output.relative(key.created_at),
            tokens::spent(key),
        ]
    })
}
