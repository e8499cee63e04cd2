//! `svc ai`.

mod aliases;
mod chat;
mod requests;
mod usage;

use api::{
    ai::AiModelList,
    tokens::{CreateOrgToken, CreateToken, CreatedOrgToken, CreatedToken, OrgTokenKind, UserTokenKind},
    usage::{AiLimit, SetAiLimit},
};
use clap::{Args, Subcommand};
use domain::{OrgName, gateway::ModelAlias, month::Month, usage::MonthlyLimit};

use super::{
    key_limits::{self, OwnKeyLimits},
    orgs,
    tokens::{LimitArg, RequestLimitArgs},
};
use crate::{
    client::{
        Client,
        gateway::{GatewayClient, GatewayModel},
    },
    credentials::{self, Connection, LoginStore},
    failure::{Failure, FailureClass},
    output::{self, Output, money},
};

const OWN_KEY: &str = "svc ai";

/// Use the AI gateway: its models, your usage, a quick try, keys for other programs.
#[derive(Debug, Args)]
pub(crate) struct AiArgs {
    #[command(subcommand)]
    action: AiCommand,
}

#[derive(Debug, Subcommand)]
enum AiCommand {
    /// List the models and their prices
    Models(GatewayOptions),
    /// Show your keys' usage in a month
    Usage {
        /// YYYY-MM [default: this month]
        #[arg(long, value_name = "MONTH")]
        month: Option<Month>,
        /// Show each day separately
        #[arg(long)]
        days: bool,
        /// Count the organization's keys instead of your own
        #[arg(long, value_name = "NAME")]
        org: Option<OrgName>,
    },
    /// List individual completions of the last thirty days: tokens, cost, and how each ended
    Requests {
        /// The maximum number of completions to list
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// List the organization's keys instead of your own
        #[arg(long, value_name = "NAME")]
        org: Option<OrgName>,
    },
    /// Show or set the monthly spending limit of all keys of an organization
    Limit {
        /// The limit in euros, such as 50.00; `none` removes it [default: show it]
        #[arg(value_name = "EUROS|none")]
        limit: Option<LimitArg>,
        /// The organization
        #[arg(long, value_name = "NAME")]
        org: OrgName,
    },
    /// Show or set other names by which your clients may request models
    Aliases {
        /// A name and its model, such as `claude-*=svc/qwen3-coder-30b`; `none` removes all [default: show them]
        #[arg(value_name = "NAME=MODEL|none", value_parser = aliases::parse)]
        aliases: Vec<Option<ModelAlias>>,
        /// Use the aliases of the organization's keys instead of your own
        #[arg(long, value_name = "NAME")]
        org: Option<OrgName>,
    },
    /// Ask a model something; the prompt is the arguments, or stdin
    Chat(chat::ChatArgs),
    /// List your AI keys, or an organization's, or revoke one
    Keys(super::keys::KeysArgs),
    /// Create keys for other programs
    Key {
        #[command(subcommand)]
        action: KeyCommand,
    },
}

#[derive(Debug, Args)]
struct GatewayOptions {
    /// The gateway's address, without /v1 [default: derived from the API's]
    #[arg(long, env = "SVC_AI_URL", value_name = "URL")]
    ai_url: Option<url::Url>,
    /// An AI key [default: one that svc creates for itself when needed]
    #[arg(long, env = "SVC_AI_KEY", value_name = "KEY", hide_env_values = true)]
    key: Option<String>,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Create a key; it is shown only once
    Create {
        /// The organization that owns the key and pays for it
        #[arg(long, value_name = "NAME")]
        org: Option<OrgName>,
        /// A name to recognize it by
        #[arg(long, value_parser = super::tokens::label)]
        label: Option<String>,
        /// The key's monthly spending limit in euros, such as 5.00
        #[arg(long, value_name = "EUROS")]
        monthly_limit: Option<MonthlyLimit>,
        #[command(flatten)]
        sizes: RequestLimitArgs,
    },
}

pub(crate) async fn run(ai: AiArgs, connection: Connection, output: Output) -> anyhow::Result<()> {
    match ai.action {
        AiCommand::Models(way) => models(way, connection, output).await,
        AiCommand::Usage { month, days: false, org } => {
            usage::show(month, org, &Client::new(connection)?, output).await
        }
        AiCommand::Usage { month, days: true, org } => {
            usage::show_days(month, org, &Client::new(connection)?, output).await
        }
        AiCommand::Requests { limit, org } => requests::list(limit, org, &Client::new(connection)?, output).await,
        AiCommand::Aliases { aliases: wanted, org } => {
            aliases::run(wanted, org, &Client::new(connection)?, output).await
        }
        AiCommand::Chat(said) => chat::run(said, connection, output).await,
        AiCommand::Keys(keys) => super::keys::run(keys, connection, output).await,
        AiCommand::Limit { limit: wanted, org } => limit(wanted, &org, &Client::new(connection)?, output).await,
        AiCommand::Key { action: KeyCommand::Create { org, label, monthly_limit, sizes } } => {
            create_key(org, label, monthly_limit, sizes, connection, output).await
        }
    }
}

/// Calls the gateway with the given key, or with svc's own: the saved one, or a new one if that is missing or invalid.
async fn with_gateway_key<T>(
    way: GatewayOptions,
    mut connection: Connection,
    act: impl AsyncFn(&GatewayClient) -> Result<T, Failure>,
) -> anyhow::Result<T> {
    if let Some(done) = with_existing_key(way, &mut connection, &act).await? {
        return Ok(done);
    }
    let file = credentials::file()?;
    let body = CreateToken {
        kind: UserTokenKind::Ai,
        label: Some(OWN_KEY.to_owned()),
        monthly_limit_cents: None,
        gateway_body_bytes: None,
        gateway_max_tokens: None,
    };
    let created = Client::new(connection.clone())?.post::<CreatedToken>("/tokens", &body).await?.body;
    let mut logins = LoginStore::load(&file)?;
    logins.keep_ai_key(&connection, created.token.clone());
    logins.save(&file)?;
    output::print_stderr(&format!("Made the AI key {} for svc itself; `svc ai keys` lists it.", created.record.id));
    Ok(act(&GatewayClient::new(&connection, created.token)?).await?)
}

/// Calls the gateway with the given or the saved key. Returns `None` if there is none that works.
async fn with_existing_key<T>(
    way: GatewayOptions,
    connection: &mut Connection,
    act: &impl AsyncFn(&GatewayClient) -> Result<T, Failure>,
) -> anyhow::Result<Option<T>> {
    if way.ai_url.is_some() {
        connection.ai = way.ai_url;
    }
    if let Some(key) = way.key.filter(|key| !key.is_empty()) {
        return Ok(Some(act(&GatewayClient::new(connection, key)?).await?));
    }
    let logins = LoginStore::load(&credentials::file()?)?;
    let Some(key) = logins.ai_key(connection) else { return Ok(None) };
    match act(&GatewayClient::new(connection, key.to_owned())?).await {
        Err(failure) if failure.kind == FailureClass::NotSignedIn => Ok(None),
        done => Ok(Some(done?)),
    }
}

/// Lists the available models with an existing key, or else with the login. It never creates a key.
async fn models(way: GatewayOptions, mut connection: Connection, output: Output) -> anyhow::Result<()> {
    let list = async |gateway: &GatewayClient| gateway.models().await;
    let models: Vec<GatewayModel> = if let Some(models) = with_existing_key(way, &mut connection, &list).await? {
        models
    } else {
        let known = Client::new(connection)?.get::<AiModelList>("/ai/models").await?.body.models;
        known.into_iter().filter(|model| model.available != Some(false)).map(GatewayModel::from).collect()
    };
    let nothing = "No model can be asked: the operator of the service has set no provider's API key.";
    output.list("models", &models, &["MODEL", "SERVED BY", "INPUT / 1M", "OUTPUT / 1M"], nothing, |model| {
        let price = |price: f64| format!("{} {}", euros(price), model.pricing.currency);
        vec![model.id.clone(), model.owned_by.clone(), price(model.pricing.input), price(model.pricing.output)]
    })
}

fn euros(cents: f64) -> String {
    format!("{:.2}", cents / 100.0)
}

async fn limit(wanted: Option<LimitArg>, org: &OrgName, client: &Client, output: Output) -> anyhow::Result<()> {
    let path = format!("/orgs/{org}/usage/ai/limit");
    let answer = match wanted {
        None => client.get::<AiLimit>(&path).await,
        Some(limit) => client.put::<AiLimit>(&path, &SetAiLimit { monthly_limit_cents: limit.amount() }).await,
    };
    let answer = answer.map_err(|failure| orgs::unknown(org, failure))?;
    if wanted.is_some() {
        super::propagation::report(output, "In force", answer.propagation);
    }
    let spent = money::spent(answer.body.month_cents, answer.body.month_microcents);
    output.result(&answer.body, || match answer.body.monthly_limit_cents {
        Some(limit) => format!("{org}: {spent} of {} this month", limit.cents()),
        None => format!("{org}: {spent} this month, no limit but the plan's"),
    })
}

async fn create_key(
    org: Option<OrgName>,
    label: Option<String>,
    monthly_limit_cents: Option<MonthlyLimit>,
    RequestLimitArgs { max_tokens: gateway_max_tokens, max_body: gateway_body_bytes }: RequestLimitArgs,
    connection: Connection,
    output: Output,
) -> anyhow::Result<()> {
    let gateway = connection.gateway().ok();
    let client = Client::new(connection)?;
    let tell = |id: &str, secret: &str| {
        output.success(&format!("Created {id}. Keep it now: it is not shown again."));
        if let (Some(gateway), false) = (gateway, output.is_json()) {
            let base = gateway.as_str().trim_end_matches('/');
            output::print_stderr(&format!(
                "Any OpenAI client takes it: base_url {base}/v1, api_key the line below.\n\
                 svc itself: SVC_AI_KEY=… svc ai chat hello"
            ));
        }
        secret.to_owned()
    };
    if let Some(org) = org {
        let body = CreateOrgToken {
            kind: OrgTokenKind::Ai,
            label,
            monthly_limit_cents,
            gateway_body_bytes,
            gateway_max_tokens,
        };
        let created = client.post::<CreatedOrgToken>(&format!("/orgs/{org}/tokens"), &body).await?.body;
        let secret = tell(created.record.record.id.as_str(), &created.token);
        key_limits::report_plan_limits(&OwnKeyLimits::from_token(&created.record.record), Some(&org), &client, output)
            .await;
        return output.result(&created, || secret);
    }
    let body =
        CreateToken { kind: UserTokenKind::Ai, label, monthly_limit_cents, gateway_body_bytes, gateway_max_tokens };
    let created = client.post::<CreatedToken>("/tokens", &body).await?.body;
    let secret = tell(created.record.id.as_str(), &created.token);
    key_limits::report_plan_limits(&OwnKeyLimits::from_token(&created.record), None, &client, output).await;
    output.result(&created, || secret)
}
