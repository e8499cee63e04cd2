//! Sends the gateway's usage to an operator's own system (`telemetry.usage_url`): each recorded completion, in batches,
//! at least once, signed according to Standard Webhooks. Prompts and responses are not recorded, so they are never
//! sent.

use std::time::Duration;

use anyhow::Context as _;
use app::App;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use config::Config;
use db::gateway::usage_export::{self, ExportState, ExportedUsage};
use domain::usage::{Ending, UsageCertainty};
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::{Client, redirect};
use serde::Serialize;
use sha2::Sha256;
use url::Url;

use super::{BatchOutcome, Job};

const BATCH: i64 = 1_000;
const FORGOTTEN: i64 = 10_000;
const WITHIN: Duration = Duration::from_secs(20);
/// The pause after the first failure. It doubles with each consecutive failure, up to [`LONGEST_RETRY`].
const RETRY: Duration = Duration::from_secs(10);
const LONGEST_RETRY: Duration = Duration::from_mins(10);
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

pub(super) struct ExportUsage;

#[derive(Serialize)]
struct UsageMessage<'u> {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: String,
    data: UsageData<'u>,
}

#[derive(Serialize)]
struct UsageData<'u> {
    usage: Vec<UsageItem<'u>>,
}

/// A completion in a batch. Fields may be added. The later of two rows with the same id counts: it is more exact.
#[derive(Serialize)]
struct UsageItem<'u> {
    id: &'u str,
    account: &'u str,
    token: &'u str,
    model: &'u str,
    provider: &'u str,
    prompt_tokens: i64,
    completion_tokens: i64,
    /// Parts of the two token counts above; null if the provider has not reported them.
    cached_tokens: Option<i64>,
    cache_write_tokens: Option<i64>,
    reasoning_tokens: Option<i64>,
    images: i64,
    /// In millionths of a cent.
    cost_microcents: i64,
    /// The kinds of tokens charged at the higher price, because the provider has not reported them.
    assumed: Vec<&'static str>,
    /// Whether the usage is an estimate, because the provider has not reported it.
    estimated: bool,
    /// How the completion ended, with the values of `GET /usage/ai/requests`; null if that was not recorded.
    ended: Option<Ending>,
    created_at: String,
}

impl<'u> UsageItem<'u> {
    fn from_recorded(usage: &'u ExportedUsage) -> Self {
        Self {
            id: usage.id.as_str(),
            account: &usage.account,
            token: usage.token.as_str(),
            model: &usage.model,
            provider: &usage.provider,
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            cached_tokens: usage.cached_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            reasoning_tokens: usage.reasoning_tokens,
            images: usage.images,
            cost_microcents: usage.cost_microcents,
            assumed: usage.assumed.names().collect(),
            estimated: usage.certainty < UsageCertainty::Reported.number(),
            ended: usage.ending,
            created_at: usage.at.to_string(),
        }
    }
}

impl Job for ExportUsage {
    const NAME: &'static str = "send usage";
    const EVERY: Duration = Duration::from_secs(15);

    fn every(config: &Config) -> Duration {
        Duration::from_secs(config.telemetry.usage_seconds.clamp(1, 3_600).into())
    }

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let telemetry = &app.config.telemetry;
        let Some(url) = &telemetry.usage_url else {
            if !usage_export::is_on(&app.db).await? {
                return Ok(BatchOutcome { done: 0, full: false });
            }
            let forgotten = usage_export::disable(&app.db, FORGOTTEN).await?;
            return Ok(BatchOutcome::new(usize::try_from(forgotten)?, FORGOTTEN));
        };
        let now = app.clock.now();
        let ExportState { failures, error, due_at } = usage_export::enable(&app.db, now).await?;
        if now < due_at {
            // An error, so that the job does not appear to have recovered.
            anyhow::bail!("{}; it is tried again later", error.unwrap_or_default());
        }
        let queued = usage_export::list_next(&app.db, BATCH).await?;
        let rows: Vec<_> =
            queued.iter().filter_map(|queued| queued.usage.as_ref().map(UsageItem::from_recorded)).collect();
        if !rows.is_empty() {
            let file = telemetry.usage_secret_file.as_deref().context("telemetry.usage_secret_file is not set")?;
            let text = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
            let secret = parse_secret(&text)
                .context("telemetry.usage_secret_file: expected `whsec_` and base64 of 24 to 64 bytes")?;
            let data = UsageData { usage: rows };
            let body = serde_json::to_string(&UsageMessage { kind: "ai.usage", timestamp: now.to_string(), data })?;
            let numbers = queued.first().zip(queued.last()).map(|(first, last)| (first.number, last.number));
            let (first, last) = numbers.unwrap_or_default();
            let id = format!("usage_{first}_{last}");
            if let Err(error) = post(url, &id, now.unix_millis() / 1_000, &secret, body).await {
                let pause = RETRY.saturating_mul(1 << failures.clamp(0, 10)).min(LONGEST_RETRY);
                usage_export::record_failure(&app.db, &format!("{error:#}"), app.clock.now(), pause).await?;
                return Err(error);
            }
        }
        if !queued.is_empty() {
            usage_export::mark_sent(&app.db, &queued, app.clock.now()).await?;
        }
        Ok(BatchOutcome::new(queued.len(), BATCH))
    }
}

/// Parses a secret in the format of Standard Webhooks.
fn parse_secret(text: &str) -> Option<Vec<u8>> {
    let secret = STANDARD.decode(text.trim().strip_prefix("whsec_")?).ok()?;
    SECRET_BYTES.contains(&secret.len()).then_some(secret)
}

fn signature(secret: &[u8], id: &str, seconds: u64, body: &str) -> anyhow::Result<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret)?;
    mac.update(format!("{id}.{seconds}.{body}").as_bytes());
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

async fn post(url: &Url, id: &str, seconds: u64, secret: &[u8], body: String) -> anyhow::Result<()> {
    let client = Client::builder()
        .user_agent(concat!("svc/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .timeout(WITHIN)
        .build()?;
    let request = client
        .post(url.clone())
        .header("content-type", "application/json")
        .header("webhook-id", id)
        .header("webhook-timestamp", seconds)
        .header("webhook-signature", signature(secret, id, seconds, &body)?)
        .body(body);
    // Omit the URL from the error: it may hold a password.
    let response = request.send().await.map_err(reqwest::Error::without_url).context("telemetry.usage_url")?;
    let status = response.status();
    anyhow::ensure!(status.is_success(), "telemetry.usage_url answered {}", status.as_u16());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_signed_as_standard_webhooks_are() {
        // The example of the specification.
        let secret = parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
        let signed = signature(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signed.unwrap(), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        for wrong in ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_c2hvcnQ=", "whsec_!"] {
            assert_eq!(parse_secret(wrong), None, "{wrong}");
        }
    }
}
