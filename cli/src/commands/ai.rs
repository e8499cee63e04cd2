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
    key_limits::{self, Asked},
    orgs,
    tokens::{Limit, Sizes},
};
use crate::{
    client::{
        Client,
        gateway::{Gateway, Model},
    },
    credentials::{self, Connection, Logins},
    failure::{Failure, Kind},
    output::{self, Output, money},
};

const OWN_KEY: &str = "svc ai";

/// Use the AI gateway: its models, your usage, a quick try, keys for other programs.
#[derive(Debug, Args)]
pub(crate) struct Ai {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the models and their prices
    Models(Way),
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
        limit: Option<Limit>,
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
    Chat(chat::Chat),
    /// List your AI keys, or an organization's, or revoke one
    Keys(super::keys::Keys),
    /// Create keys for other programs
    Key {
        #[command(subcommand)]
        action: KeyAction,
    },
}

#[derive(Debug, Args)]
struct Way {
    /// The gateway's address, without /v1 [default: derived from the API's]
    #[arg(long, env = "SVC_AI_URL", value_name = "URL")]
    ai_url: Option<url::Url>,
    /// An AI key [default: one that svc creates for itself when needed]
    #[arg(long, env = "SVC_AI_KEY", value_name = "KEY", hide_env_values = true)]
    key: Option<String>,
}

#[derive(Debug, Subcommand)]
enum KeyAction {
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
        sizes: Sizes,
    },
}

pub(crate) async fn run(ai: Ai, connection: Connection, output: Output) -> anyhow::Result<()> {
    match ai.action {
        Action::Models(way) => models(way, connection, output).await,
        Action::Usage { month, days: false, org } => usage::show(month, org, &Client::new(connection)?, output).await,
        Action::Usage { month, days: true, org } => {
            usage::show_days(month, org, &Client::new(connection)?, output).await
        }
        Action::Requests { limit, org } => requests::list(limit, org, &Client::new(connection)?, output).await,
        Action::Aliases { aliases: wanted, org } => aliases::run(wanted, org, &Client::new(connection)?, output).await,
        Action::Chat(said) => chat::run(said, connection, output).await,
        Action::Keys(keys) => super::keys::run(keys, connection, output).await,
        Action::Limit { limit: wanted, org } => limit(wanted, &org, &Client::new(connection)?, output).await,
        Action::Key { action: KeyAction::Create { org, label, monthly_limit, sizes } } => {
            create_key(org, label, monthly_limit, sizes, connection, output).await
        }
    }
}

/// Calls the gateway with the given key, or with svc's own: the saved one, or a new one if that is missing or invalid.
async fn at_gateway<T>(
    way: Way,
    mut connection: Connection,
    act: impl AsyncFn(&Gateway) -> Result<T, Failure>,
) -> anyhow::Result<T> {
    if let Some(done) = with_key_at_hand(way, &mut connection, &act).await? {
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
    let mut logins = Logins::load(&file)?;
    logins.keep_ai_key(&connection, created.token.clone());
    logins.save(&file)?;
    output::tell(&format!("Made the AI key {} for svc itself; `svc ai keys` lists it.", created.record.id));
    Ok(act(&Gateway::new(&connection, created.token)?).await?)
}

/// Calls the gateway with the given or the saved key. Returns `None` if there is none that works.
async fn with_key_at_hand<T>(
    way: Way,
    connection: &mut Connection,
    act: &impl AsyncFn(&Gateway) -> Result<T, Failure>,
) -> anyhow::Result<Option<T>> {
    if way.ai_url.is_some() {
        connection.ai = way.ai_url;
    }
    if let Some(key) = way.key.filter(|key| !key.is_empty()) {
        return Ok(Some(act(&Gateway::new(connection, key)?).await?));
    }
    let logins = Logins::load(&credentials::file()?)?;
    let Some(key) = logins.ai_key(connection) else { return Ok(None) };
    match act(&Gateway::new(connection, key.to_owned())?).await {
        Err(failure) if failure.kind == Kind::NotSignedIn => Ok(None),
        done => Ok(Some(done?)),
    }
}

/// Lists the available models with an existing key, or else with the login. It never creates a key.
async fn models(way: Way, mut connection: Connection, output: Output) -> anyhow::Result<()> {
    let list = async |gateway: &Gateway| gateway.models().await;
    let models: Vec<Model> = if let Some(models) = with_key_at_hand(way, &mut connection, &list).await? {
        models
    } else {
        let known = Client::new(connection)?.get::<AiModelList>("/ai/models").await?.body.models;
        known.into_iter().filter(|model| model.available != Some(false)).map(Model::from).collect()
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

async fn limit(wanted: Option<Limit>, org: &OrgName, client: &Client, output: Output) -> anyhow::Result<()> {
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
    Sizes { max_tokens: gateway_max_tokens, max_body: gateway_body_bytes }: Sizes,
    connection: Connection,
    output: Output,
) -> anyhow::Result<()> {
    let gateway = connection.gateway().ok();
    let client = Client::new(connection)?;
    let tell = |id: &str, secret: &str| {
        output.success(&format!("Created {id}. Keep it now: it is not shown again."));
        if let (Some(gateway), false) = (gateway, output.is_json()) {
            let base = gateway.as_str().trim_end_matches('/');
            output::tell(&format!(
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
        key_limits::tell_plan(&Asked::of(&created.record.record), Some(&org), &client, output).await;
        return output.result(&created, || secret);
    }
    let body =
        CreateToken { kind: UserTokenKind::Ai, label, monthly_limit_cents, gateway_body_bytes, gateway_max_tokens };
    let created = client.post::<CreatedToken>("/tokens", &body).await?.body;
    let secret = tell(created.record.id.as_str(), &created.token);
    key_limits::tell_plan(&Asked::of(&created.record), None, &client, output).await;
    output.result(&created, || secret)
}
