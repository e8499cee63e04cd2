//! `svc tokens`.

use std::str::FromStr;

use api::{
    Done,
    tokens::{
        ChangeToken, CreateOrgToken, CreateToken, CreatedOrgToken, CreatedToken, OrgToken, OrgTokenKind, OrgTokenList,
        Token, TokenList, UserTokenKind,
    },
};
use clap::{Subcommand, ValueEnum};
use domain::{
    OrgName, Patch, TokenId,
    gateway::{BodyLimit, TokenLimit},
    limits,
    token::TokenKind,
    usage::MonthlyLimit,
};

use super::{
    key_limits::{self, OwnKeyLimits},
    orgs,
};
use crate::{
    client::Client,
    failure::{Failure, FailureClass as FailureKind},
    options::OwnerOption,
    output::{Output, money},
};

/// List your API tokens, or an organization's, or change them.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct TokensArgs {
    #[command(flatten)]
    owner: OwnerOption,
    #[command(subcommand)]
    action: Option<TokensCommand>,
}

#[derive(Debug, Subcommand)]
enum TokensCommand {
    /// List the tokens, newest first
    #[command(alias = "ls")]
    List,
    /// Create a token; its secret is shown only once
    Create {
        /// The purpose of the token [default: cli, or deploy for an organization]
        #[arg(long, value_enum)]
        kind: Option<TokenKindArg>,
        /// A label to recognize it by
        #[arg(long, value_parser = label)]
        label: Option<String>,
        /// An AI key's monthly spending limit in euros, such as 5.00
        #[arg(long, value_name = "EUROS")]
        monthly_limit: Option<MonthlyLimit>,
        #[command(flatten)]
        sizes: RequestLimitArgs,
    },
    /// Limit an AI key's monthly spending and the size of its requests
    Limit {
        /// The token's id: tok_…
        id: TokenId,
        /// The monthly limit in euros, such as 5.00; `none` removes it
        #[arg(value_name = "EUROS|none", required_unless_present_any = ["max_tokens", "max_body"])]
        limit: Option<LimitArg>,
        /// The maximum `max_tokens` of its requests, if lower than the plan's; `none` removes it
        #[arg(long, value_name = "TOKENS|none")]
        max_tokens: Option<LimitArg<TokenLimit>>,
        /// The maximum body size of its requests, such as 256KB, if lower than the plan's; `none` removes it
        #[arg(long, value_name = "SIZE|none")]
        max_body: Option<LimitArg<BodyLimit>>,
    },
    /// Revoke a token: it stops working immediately
    #[command(alias = "rm")]
    Revoke {
        /// The token's id: tok_…
        id: TokenId,
    },
}

/// Limits of a new AI key below those of its plan.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct RequestLimitArgs {
    /// The maximum `max_tokens` of an AI key's requests, if lower than the plan's
    #[arg(long, value_name = "TOKENS")]
    pub(super) max_tokens: Option<TokenLimit>,
    /// The maximum body size of an AI key's requests, such as 256KB, if lower than the plan's
    #[arg(long, value_name = "SIZE")]
    pub(super) max_body: Option<BodyLimit>,
}

/// A limit as given on the command line.
#[derive(Debug, Clone, Copy)]
pub(super) enum LimitArg<T = MonthlyLimit> {
    /// Removes the key's own limit.
    None,
    At(T),
}

impl<T> LimitArg<T> {
    pub(super) fn amount(self) -> Option<T> {
        match self {
            Self::None => None,
            Self::At(limit) => Some(limit),
        }
    }

    /// Returns the change to make: a limit that is not given stays.
    fn patch(named: Option<Self>) -> Patch<T> {
        named.map_or(Patch::Keep, |limit| limit.amount().into())
    }
}

impl<T: FromStr> FromStr for LimitArg<T> {
    type Err = T::Err;
    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "none" { Ok(Self::None) } else { text.parse().map(Self::At) }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TokenKindArg {
    /// For svc and the control plane, for example in CI
    Cli,
    /// For the AI gateway
    Ai,
    /// For deploying an organization's projects
    Deploy,
}

pub(crate) async fn run(tokens: TokensArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let org = tokens.owner.org.as_ref();
    match (tokens.action.unwrap_or(TokensCommand::List), org) {
        (TokensCommand::List, None) => list(client, output).await,
        (TokensCommand::List, Some(org)) => list_org_tokens(org, client, output).await,
        (TokensCommand::Create { kind, label, monthly_limit, sizes }, None) => {
            create(kind, label, monthly_limit, sizes, client, output).await
        }
        (TokensCommand::Create { kind, label, monthly_limit, sizes }, Some(org)) => {
            create_for_org(org, (kind, label, monthly_limit, sizes), client, output).await
        }
        (TokensCommand::Limit { id, limit, max_tokens, max_body }, _) => {
            let change = ChangeToken {
                monthly_limit_cents: LimitArg::patch(limit),
                gateway_body_bytes: LimitArg::patch(max_body),
                gateway_max_tokens: LimitArg::patch(max_tokens),
            };
            change_limit(org, &id, &change, client, output).await
        }
        (TokensCommand::Revoke { id }, _) => revoke(org, &id, client, output).await,
    }
}

async fn list(client: &Client, output: Output) -> anyhow::Result<()> {
    let tokens = client.list("/tokens", |page: TokenList| (page.tokens, page.next_cursor)).await?;
    output.list(
        "tokens",
        &tokens,
        &["TOKEN", "KIND", "LABEL", "CREATED", "THIS MONTH", "STATE"],
        "No tokens.",
        |token| {
            let state = token.revoked_at.map_or("active".to_owned(), |at| format!("revoked {}", output.relative(at)));
            vec![
                token.id.to_string(),
                token.kind.as_str().to_owned(),
                token.label.clone().unwrap_or_default(),
                output.relative(token.created_at),
                spent(token),
                state,
            ]
        },
    )
}

async fn list_org_tokens(org: &OrgName, client: &Client, output: Output) -> anyhow::Result<()> {
    let path = format!("/orgs/{org}/tokens");
    let tokens = client.list(&path, |page: OrgTokenList| (page.tokens, page.next_cursor)).await;
    let tokens = tokens.map_err(|failure| orgs::unknown(org, failure))?;
    let nothing = format!("No tokens. Make one for CI: svc tokens create --org {org}");
    output.list("tokens", &tokens, &["TOKEN", "KIND", "LABEL", "CREATED", "THIS MONTH", "BY"], &nothing, |token| {
        vec![
            token.record.id.to_string(),
            token.record.kind.as_str().to_owned(),
            token.record.label.clone().unwrap_or_default(),
            output.relative(token.record.created_at),
            spent(&token.record),
            token.created_by.clone().unwrap_or_default(),
        ]
    })
}

/// Formats an AI key's cost this month and its limit.
pub(super) fn spent(token: &Token) -> String {
    let cost = money::spent(token.month_cents, token.month_microcents);
    match (token.kind, token.monthly_limit_cents) {
        (TokenKind::Ai, Some(limit)) => format!("{cost} of {}", limit.cents()),
        (TokenKind::Ai, None) => cost,
        (TokenKind::Cli | TokenKind::Deploy, _) => String::new(),
    }
}

async fn create(
    kind: Option<TokenKindArg>,
    label: Option<String>,
    monthly_limit_cents: Option<MonthlyLimit>,
    RequestLimitArgs { max_tokens: gateway_max_tokens, max_body: gateway_body_bytes }: RequestLimitArgs,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let kind = match kind {
        None | Some(TokenKindArg::Cli) => UserTokenKind::Cli,
        Some(TokenKindArg::Ai) => UserTokenKind::Ai,
        Some(TokenKindArg::Deploy) => {
            return Err(Failure::usage("A deploy token belongs to an organization.")
                .with_hint("Add `--org NAME`.")
                .into());
        }
    };
    let body = CreateToken { kind, label, monthly_limit_cents, gateway_body_bytes, gateway_max_tokens };
    let created = client.post::<CreatedToken>("/tokens", &body).await?.body;
    remind_to_keep(output, &created.record);
    key_limits::report_plan_limits(&OwnKeyLimits::from_token(&created.record), None, client, output).await;
    output.result(&created, || created.token.clone())
}

async fn create_for_org(
    org: &OrgName,
    (kind, label, monthly_limit_cents, sizes): (
        Option<TokenKindArg>,
        Option<String>,
        Option<MonthlyLimit>,
        RequestLimitArgs,
    ),
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let kind = match kind {
        None | Some(TokenKindArg::Deploy) => OrgTokenKind::Deploy,
        Some(TokenKindArg::Ai) => OrgTokenKind::Ai,
        Some(TokenKindArg::Cli) => {
            return Err(Failure::usage("A cli token belongs to a person.")
                .with_hint("Leave `--org` out, or make a deploy token: --kind deploy.")
                .into());
        }
    };
    let RequestLimitArgs { max_tokens: gateway_max_tokens, max_body: gateway_body_bytes } = sizes;
    let body = CreateOrgToken { kind, label, monthly_limit_cents, gateway_body_bytes, gateway_max_tokens };
    let answer = client.post::<CreatedOrgToken>(&format!("/orgs/{org}/tokens"), &body).await;
    let created = answer.map_err(|failure| orgs::unknown(org, failure))?.body;
    remind_to_keep(output, &created.record.record);
    key_limits::report_plan_limits(&OwnKeyLimits::from_token(&created.record.record), Some(org), client, output).await;
    if kind == OrgTokenKind::Deploy {
        output.note("In CI: set SVC_TOKEN to it, and run `svc deploy DIR --project NAME --no-create`.");
    }
    output.result(&created, || created.token.clone())
}

fn remind_to_keep(output: Output, token: &Token) {
    output.success(&format!("Created {}. Keep its secret now: it is not shown again.", token.id));
}

async fn change_limit(
    org: Option<&OrgName>,
    id: &TokenId,
    body: &ChangeToken,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let path = token_path(org, id);
    // An organization's token is returned with more fields.
    if org.is_some() {
        let answer = client.patch::<OrgToken>(&path, body).await.map_err(|failure| unknown(org, id, failure))?;
        report_limit(id, &answer.body.record, output);
        key_limits::report_plan_limits(&OwnKeyLimits::from_token(&answer.body.record), org, client, output).await;
        super::propagation::report(output, "In force", answer.propagation);
        return output.result(&answer.body, String::new);
    }
    let answer = client.patch::<Token>(&path, body).await.map_err(|failure| unknown(org, id, failure))?;
    report_limit(id, &answer.body, output);
    key_limits::report_plan_limits(&OwnKeyLimits::from_token(&answer.body), None, client, output).await;
    super::propagation::report(output, "In force", answer.propagation);
    output.result(&answer.body, String::new)
}

fn report_limit(id: &TokenId, token: &Token, output: Output) {
    let spent = money::spent(token.month_cents, token.month_microcents);
    output.success(&match token.monthly_limit_cents {
        Some(limit) => format!("{id} may cost {} a month; {spent} is spent this month.", limit.cents()),
        None => format!("{id} has no limit of its own for a month now."),
    });
    if let Some(limit) = token.gateway_max_tokens {
        output.note(&format!("Its requests may ask for {} tokens at most.", limit.get()));
    }
    if let Some(limit) = token.gateway_body_bytes {
        output.note(&format!("Its requests may have {} at most.", domain::size(limit.get())));
    }
}

pub(super) async fn revoke(org: Option<&OrgName>, id: &TokenId, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.delete::<Done>(&token_path(org, id)).await.map_err(|failure| unknown(org, id, failure))?;
    output.success(&format!("Revoked {id}."));
    super::propagation::report(output, "Gone", answer.propagation);
    output.result(&answer.body, String::new)
}

fn token_path(org: Option<&OrgName>, id: &TokenId) -> String {
    org.map_or_else(|| format!("/tokens/{id}"), |org| format!("/orgs/{org}/tokens/{id}"))
}

/// Adds the next step to a 404 of a token's routes.
fn unknown(org: Option<&OrgName>, id: &TokenId, failure: Failure) -> Failure {
    match (failure.kind, org) {
        (FailureKind::NotFound, None) => Failure { message: format!("You have no active token {id}."), ..failure }
            .with_hint("`svc tokens` lists yours; an organization's is named with --org."),
        (FailureKind::NotFound, Some(org)) => {
            Failure { message: format!("{org} has no active token {id}."), ..failure }
                .with_hint(format!("`svc tokens --org {org}` lists them."))
        }
        _ => failure,
    }
}

pub(super) fn label(text: &str) -> Result<String, String> {
    let most = limits::TOKEN_LABEL_CHARS;
    if text.chars().count() <= most {
        Ok(text.to_owned())
    } else {
        Err(format!("a label has at most {most} characters"))
    }
}
