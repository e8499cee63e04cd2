//! `svc ai`.

mod requests;

use std::io::{self, IsTerminal as _, Read as _};

use api::{
    tokens::{CreateOrgToken, CreateToken, CreatedOrgToken, CreatedToken, OrgTokenKind, UserTokenKind},
    usage::{AiLimit, AiUsage, AiUsageDays, ModelUsage, SetAiLimit},
};
use clap::{Args, Subcommand};
use domain::{OrgName, month::Month, usage::MonthlyLimit};
use serde_json::json;

use super::{
    orgs,
    tokens::{Limit, Sizes, cents},
};
use crate::{
    client::{
        Client,
        gateway::{Gateway, Model, Part},
    },
    credentials::{self, Connection, Logins},
    failure::{Failure, Kind},
    output::{self, Output, count, say, table},
};

/// The label of the key that `svc ai` creates for itself.
const OWN_KEY: &str = "svc ai";
/// Width of the longest bar of the usage chart, in characters.
const BAR: u64 = 24;
/// Most bytes of a prompt that is read from a pipe: the largest request that any plan may allow.
const PROMPT_BYTES: u64 = 32 * 1024 * 1024;

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
    /// Show what your keys were used for in a month
    Usage {
        /// YYYY-MM [default: this month]
        #[arg(long, value_name = "MONTH")]
        month: Option<Month>,
        /// Tell the days apart
        #[arg(long)]
        days: bool,
        /// The organization whose keys are counted, instead of your own
        #[arg(long, value_name = "NAME")]
        org: Option<OrgName>,
    },
    /// List single completions of the last thirty days: tokens, cost, and how each ended
    Requests {
        /// The most completions to list
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// The organization whose keys are listed, instead of your own
        #[arg(long, value_name = "NAME")]
        org: Option<OrgName>,
    },
    /// Show or set what all keys of an organization may cost in a month
    Limit {
        /// The limit in euros, such as 50.00; `none` removes it [default: show it]
        #[arg(value_name = "EUROS|none")]
        limit: Option<Limit>,
        /// The organization
        #[arg(long, value_name = "NAME")]
        org: OrgName,
    },
    /// Ask a model something; the prompt is what follows, or what is piped in
    Chat(Chat),
    /// List your AI keys, or an organization's, or revoke one
    Keys(super::keys::Keys),
    /// Create keys for other programs
    Key {
        #[command(subcommand)]
        action: KeyAction,
    },
}

/// The options that choose a gateway and a key.
#[derive(Debug, Args)]
struct Way {
    /// The gateway's address, without /v1 [default: beside the API's]
    #[arg(long, env = "SVC_AI_URL", value_name = "URL")]
    ai_url: Option<url::Url>,
    /// An AI key [default: one that svc creates for itself]
    #[arg(long, env = "SVC_AI_KEY", value_name = "KEY", hide_env_values = true)]
    key: Option<String>,
}

#[derive(Debug, Args)]
struct Chat {
    /// The prompt
    #[arg(value_name = "PROMPT")]
    prompt: Vec<String>,
    /// The model: svc/… [default: the cheapest]
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    /// Instructions for the model, as a system message
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// The answer's length at most, in tokens
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    #[command(flatten)]
    way: Way,
}

#[derive(Debug, Subcommand)]
enum KeyAction {
    /// Create a key; it is shown only now
    Create {
        /// The organization that owns the key and pays for it
        #[arg(long, value_name = "NAME")]
        org: Option<OrgName>,
        /// A name to know it by
        #[arg(long, value_parser = super::tokens::label)]
        label: Option<String>,
        /// What the key may cost in a month, in euros, such as 5.00
        #[arg(long, value_name = "EUROS")]
        monthly_limit: Option<MonthlyLimit>,
        #[command(flatten)]
        sizes: Sizes,
    },
}

pub(crate) async fn run(ai: Ai, connection: Connection, output: Output) -> anyhow::Result<()> {
    match ai.action {
        Action::Models(way) => models(way, connection, output).await,
        Action::Usage { month, days: false, org } => usage(month, org, &Client::new(connection)?, output).await,
        Action::Usage { month, days: true, org } => usage_of_days(month, org, &Client::new(connection)?, output).await,
        Action::Requests { limit, org } => requests::list(limit, org, &Client::new(connection)?, output).await,
        Action::Chat(said) => chat(said, connection, output).await,
        Action::Keys(keys) => super::keys::run(keys, connection, output).await,
        Action::Limit { limit: wanted, org } => limit(wanted, &org, &Client::new(connection)?, output).await,
        Action::Key { action: KeyAction::Create { org, label, monthly_limit, sizes } } => {
            create_key(org, label, monthly_limit, sizes, connection, output).await
        }
    }
}

/// Does something at the gateway, with the key that was named, or with one of our own: the saved one, or a new one when
/// there is none or it works no more.
async fn at_gateway<T>(
    way: Way,
    mut connection: Connection,
    act: impl AsyncFn(&Gateway) -> Result<T, Failure>,
) -> anyhow::Result<T> {
    if way.ai_url.is_some() {
        connection.ai = way.ai_url;
    }
    if let Some(key) = way.key.filter(|key| !key.is_empty()) {
        return Ok(act(&Gateway::new(&connection, key)?).await?);
    }
    let file = credentials::file()?;
    if let Some(key) = Logins::load(&file)?.ai_key(&connection) {
        match act(&Gateway::new(&connection, key.to_owned())?).await {
            Err(failure) if failure.kind == Kind::NotSignedIn => {}
            done => return Ok(done?),
        }
    }
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

async fn models(way: Way, connection: Connection, output: Output) -> anyhow::Result<()> {
    let models = at_gateway(way, connection, async |gateway| gateway.models().await).await?;
    output.list("models", &models, &["MODEL", "SERVED BY", "INPUT / 1M", "OUTPUT / 1M"], "No models.", |model| {
        let price = |price: f64| format!("{} {}", euros(price), model.pricing.currency);
        vec![model.id.clone(), model.owned_by.clone(), price(model.pricing.input), price(model.pricing.output)]
    })
}

fn euros(cents: f64) -> String {
    format!("{:.2}", cents / 100.0)
}

async fn usage(month: Option<Month>, org: Option<OrgName>, client: &Client, output: Output) -> anyhow::Result<()> {
    let usage = client.get::<AiUsage>(&usage_path(org, "", month)).await?.body;
    output.result(&usage, || drawn(&usage))
}

async fn usage_of_days(
    month: Option<Month>,
    org: Option<OrgName>,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let used = client.get::<AiUsageDays>(&usage_path(org, "/days", month)).await?.body;
    output.result(&used, || drawn_days(&used))
}

/// The path of a person's usage, or of an organization's, with what is `below` it.
fn usage_path(org: Option<OrgName>, below: &str, month: Option<Month>) -> String {
    let of = org.map(|org| format!("/orgs/{org}")).unwrap_or_default();
    let query = month.map(|month| format!("?month={month}")).unwrap_or_default();
    format!("{of}/usage/ai{below}{query}")
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
    let spent = cents(answer.body.month_cents);
    output.result(&answer.body, || match answer.body.monthly_limit_cents {
        Some(limit) => format!("{org}: {spent} of {} this month", limit.cents()),
        None => format!("{org}: {spent} this month, no limit but the plan's"),
    })
}

fn drawn(usage: &AiUsage) -> String {
    let tokens = |model: &ModelUsage| model.prompt_tokens + model.completion_tokens;
    let most = usage.usage.iter().map(tokens).max().unwrap_or(0).max(1);
    let number = |number: u64| indicatif::HumanCount(number).to_string();
    let mut rows: Vec<Vec<String>> = usage
        .usage
        .iter()
        .map(|model| {
            vec![
                model.model.clone(),
                number(model.requests),
                number(model.prompt_tokens),
                number(model.cached_tokens),
                number(model.completion_tokens),
                number(model.reasoning_tokens),
                requests::price(model.cost_microcents),
                bar(tokens(model), most),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let totals = &usage.totals;
        rows.push(vec![
            "all".to_owned(),
            number(totals.requests),
            number(totals.prompt_tokens),
            number(totals.cached_tokens),
            number(totals.completion_tokens),
            number(totals.reasoning_tokens),
            requests::price(totals.cost_microcents),
            String::new(),
        ]);
    }
    let columns = ["MODEL", "REQUESTS", "READ", "CACHED", "WRITTEN", "REASONING", "EUR", "TOKENS"];
    table(&columns, &rows, "Nothing was used that month.")
}

fn drawn_days(used: &AiUsageDays) -> String {
    let number = |number: u64| indicatif::HumanCount(number).to_string();
    let rows = used.days.iter().flat_map(|day| {
        day.usage.iter().map(|model| {
            vec![
                day.day.clone(),
                model.model.clone(),
                number(model.requests),
                number(model.prompt_tokens),
                number(model.completion_tokens),
                requests::price(model.cost_microcents),
            ]
        })
    });
    let rows: Vec<Vec<String>> = rows.collect();
    table(&["DAY", "MODEL", "REQUESTS", "READ", "WRITTEN", "EUR"], &rows, "Nothing was used that month.")
}

/// Draws a bar, at least a sliver wide, so that a small amount is visible.
fn bar(tokens: u64, most: u64) -> String {
    let eighths = (u128::from(tokens) * u128::from(BAR) * 8 / u128::from(most)).max(u128::from(tokens > 0));
    let (whole, part) = (usize::try_from(eighths / 8).unwrap_or(0), usize::try_from(eighths % 8).unwrap_or(0));
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][part];
    format!("{}{part}", "█".repeat(whole))
}

async fn chat(said: Chat, connection: Connection, output: Output) -> anyhow::Result<()> {
    let Chat { prompt, model, system, max_tokens, way } = said;
    let prompt = prompt_of(prompt.join(" "))?;
    let (model, text, used) = at_gateway(way, connection, async |gateway| {
        let model = match &model {
            Some(model) => model.clone(),
            None => cheapest(&gateway.models().await?)?,
        };
        let mut parts = gateway.chat(&model, system.as_deref(), &prompt, max_tokens).await?;
        let (mut text, mut used) = (String::new(), None);
        while let Some(part) = parts.next().await? {
            match part {
                Part::Text(words) => {
                    if !output.is_json() {
                        say(&words);
                    }
                    text.push_str(&words);
                }
                Part::Used(figures) => used = Some(figures),
            }
        }
        Ok((model, text, used))
    })
    .await?;
    if !output.is_json() && !text.ends_with('\n') {
        say("\n");
    }
    if let Some(used) = used {
        let (read, written) = (count(used.prompt_tokens, "token"), count(used.completion_tokens, "token"));
        output.note(&format!("{model}: {read} read, {written} written."));
    }
    if output.is_json() {
        output.result(&json!({"model": model, "content": text, "usage": used}), String::new)?;
    }
    Ok(())
}

fn prompt_of(said: String) -> anyhow::Result<String> {
    let mut prompt = said;
    if prompt.trim().is_empty() && !io::stdin().is_terminal() {
        prompt.clear();
        io::stdin()
            .take(PROMPT_BYTES + 1)
            .read_to_string(&mut prompt)
            .map_err(|error| Failure::usage(format!("The prompt cannot be read from standard input: {error}.")))?;
    }
    if prompt.trim().is_empty() {
        let failure = Failure::usage("There is no prompt.");
        return Err(failure.with_hint("Write it after `svc ai chat`, or pipe it in.").into());
    }
    Ok(prompt)
}

fn cheapest(models: &[Model]) -> Result<String, Failure> {
    let price = |model: &&Model| model.pricing.input + model.pricing.output;
    let cheapest = models.iter().min_by(|a, b| price(a).total_cmp(&price(b)));
    cheapest
        .map(|model| model.id.clone())
        .ok_or_else(|| Failure::new(Kind::Refused, "no_models", "The gateway has no models."))
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
        return output.result(&created, || secret);
    }
    let body =
        CreateToken { kind: UserTokenKind::Ai, label, monthly_limit_cents, gateway_body_bytes, gateway_max_tokens };
    let created = client.post::<CreatedToken>("/tokens", &body).await?.body;
    let secret = tell(created.record.id.as_str(), &created.token);
    output.result(&created, || secret)
}

#[cfg(test)]
mod tests {
    use api::usage::UsageTotals;

    use super::*;

    #[test]
    fn bars_are_as_long_as_what_they_stand_for() {
        assert_eq!(bar(100, 100), "█".repeat(24));
        assert_eq!(bar(50, 100), "█".repeat(12));
        assert_eq!(bar(1, 1_000_000), "▏");
        assert_eq!(bar(0, 100), "");
        assert_eq!(bar(u64::MAX, u64::MAX), "█".repeat(24));
    }

    #[test]
    fn usage_is_a_table_with_a_sum() {
        let model = |model: &str, requests, prompt_tokens, completion_tokens| ModelUsage {
            model: model.into(),
            requests,
            prompt_tokens,
            completion_tokens,
            cached_tokens: prompt_tokens / 2,
            cache_write_tokens: 0,
            reasoning_tokens: 0,
            images: 0,
            cost_microcents: 123_450_000,
        };
        let totals = UsageTotals {
            requests: 1_501,
            prompt_tokens: 3_010,
            completion_tokens: 1_020,
            cost_microcents: 246_900_000,
            ..UsageTotals::default()
        };
        let usage = AiUsage { usage: vec![model("svc/a", 1_500, 3_000, 1_000), model("svc/b", 1, 10, 20)], totals };
        let text = drawn(&usage);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[1].starts_with("svc/a  1,500") && lines[1].ends_with('█'), "{text}");
        assert!(lines[2].ends_with('▏'), "{text}");
        assert!(lines[3].starts_with("all") && lines[3].contains("3,010"), "{text}");
        assert!(lines[1].contains("1,500") && lines[3].contains("2.4690"), "{text}");
        let nothing = AiUsage { usage: Vec::new(), totals: UsageTotals::default() };
        assert_eq!(drawn(&nothing), "Nothing was used that month.");
    }
}
