//! Fetches what operators of agents publish: the networks from which they send requests, and the keys with which they
//! sign.
//!
//! A list that cannot be fetched or parsed leaves the previous one in place, and is retried after a growing pause.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use anyhow::Context as _;
use app::App;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use config::StatsSource;
use db::stats::agents::{self, AgentKey, AgentNetworks};
use domain::{
    Timestamp,
    traffic::agents::{
        find,
        networks::{parse_list, snapshot},
    },
};
use futures_util::{StreamExt as _, stream};
use rand::RngExt as _;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::{BatchOutcome, Job};

const AT_A_TIME: usize = 4;
const WITHIN: Duration = Duration::from_secs(20);
const LIST_BYTES: usize = 2 * 1024 * 1024;
const LIST_NETWORKS: usize = 20_000;
const DIRECTORY_KEYS: usize = 50;
const REDIRECTS: usize = 3;
/// The pause after a successful fetch, plus a random part of up to half of it.
const READ_AGAIN: Duration = Duration::from_hours(4);
/// The pause after the first failure. It doubles with each consecutive failure, up to [`READ_AGAIN`].
const RETRY: Duration = Duration::from_mins(5);
/// How long the size of the previous list bounds that of the next.
const SIZE_HOLDS: Duration = Duration::from_hours(7 * 24);

pub(super) struct FetchAgentLists;

enum ListSource {
    /// A list of networks, by its name.
    Networks(String),
    /// A key directory of the agent with this name.
    Keys(String),
}

#[derive(Deserialize)]
struct JsonWebKeySet {
    keys: Vec<JsonWebKey>,
}

#[derive(Deserialize)]
struct JsonWebKey {
    kty: String,
    crv: Option<String>,
    x: Option<String>,
    exp: Option<i64>,
}

impl Job for FetchAgentLists {
    const NAME: &'static str = "read what agents publish";
    const EVERY: Duration = Duration::from_mins(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let stats = &app.config.stats;
        if stats.source == StatsSource::None {
            return Ok(BatchOutcome { done: 0, full: false });
        }
        let networks = stats.agent_networks.iter().map(|(name, url)| (url.clone(), ListSource::Networks(name.clone())));
        let keys = stats.agent_directories.iter().map(|(name, url)| (url.clone(), ListSource::Keys(name.clone())));
        let sources: Vec<(Url, ListSource)> = networks.chain(keys).collect();
        let urls: BTreeSet<String> = sources.iter().map(|(url, _)| url.to_string()).collect();
        let urls: Vec<String> = urls.into_iter().collect();
        let due: HashMap<String, i32> =
            agents::filter_due(&app.db, &urls, app.clock.now()).await?.into_iter().collect();
        if due.is_empty() {
            return Ok(BatchOutcome { done: 0, full: false });
        }
        let client = reqwest::Client::builder()
            .user_agent(concat!("svc/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::limited(REDIRECTS))
            .timeout(WITHIN)
            .build()?;
        let failures_of =
            |(url, source): (Url, ListSource)| due.get(url.as_str()).map(|failures| (url, source, *failures));
        let due: Vec<(Url, ListSource, i32)> = sources.into_iter().filter_map(failures_of).collect();
        let read = stream::iter(due).map(async |(url, source, failures)| {
            let read = fetch_source(app, &client, &url, &source).await;
            let news = read.as_ref().err().filter(|_| failures == 0).map(|error| format!("{url}: {error:#}"));
            let (pause, failures) = match &read {
                Ok(()) => (READ_AGAIN, 0),
                Err(_) => (RETRY.saturating_mul(1 << failures.clamp(0, 10)).min(READ_AGAIN), failures + 1),
            };
            let jittered = pause.mul_f64(rand::rng().random_range(1.0..1.5));
            agents::record_attempt(&app.db, url.as_str(), app.clock.now() + jittered, failures).await?;
            anyhow::Ok((u64::from(read.is_ok()), news))
        });
        let outcomes: Vec<_> = read.buffer_unordered(AT_A_TIME).collect().await;
        let outcomes = outcomes.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        // One log line: without internet access, all of them fail.
        let mut news = outcomes.iter().filter_map(|(_, news)| news.as_ref());
        if let Some(error) = news.next() {
            let failed = 1 + news.count();
            tracing::warn!(failed, error, "lists of agents' networks or keys cannot be read; the last of each stays");
        }
        Ok(BatchOutcome { done: outcomes.iter().map(|(done, _)| done).sum(), full: false })
    }
}

async fn fetch_source(app: &App, client: &reqwest::Client, url: &Url, source: &ListSource) -> anyhow::Result<()> {
    let text = fetch(client, url).await?;
    let now = app.clock.now();
    match source {
        ListSource::Networks(name) => {
            let before = previous_size(app, name, now).await?;
            let networks = parse_list(&text, LIST_NETWORKS, before)?;
            let networks = networks.iter().map(ToString::to_string).collect();
            agents::replace_networks(&app.db, &AgentNetworks { source: name.clone(), networks, read_at: now }).await?;
        }
        ListSource::Keys(agent) => {
            anyhow::ensure!(find(agent).is_some(), "no agent is called {agent:?}");
            agents::replace_keys(&app.db, agent, &parse_keys(agent, &text)?).await?;
        }
    }
    Ok(())
}

/// Returns how many networks the previous list of a source had, or the built-in list if none was fetched.
async fn previous_size(app: &App, source: &str, now: Timestamp) -> Result<Option<usize>, sqlx::Error> {
    Ok(match agents::find_networks(&app.db, source).await? {
        Some(last) if now.since(last.read_at) < SIZE_HOLDS => Some(last.networks.len()),
        Some(_) => None,
        None => snapshot().get(source).map(Vec::len),
    })
}

async fn fetch(client: &reqwest::Client, url: &Url) -> anyhow::Result<String> {
    let mut response = client.get(url.clone()).send().await?.error_for_status()?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        anyhow::ensure!(body.len() + chunk.len() <= LIST_BYTES, "it is longer than {LIST_BYTES} bytes");
        body.extend_from_slice(&chunk);
    }
    String::from_utf8(body).context("it is no text")
}

/// Returns the Ed25519 keys of a directory, with their thumbprints (RFC 7638, RFC 8037).
fn parse_keys(agent: &str, directory: &str) -> anyhow::Result<Vec<AgentKey>> {
    let directory: JsonWebKeySet = serde_json::from_str(directory).context("it is no set of keys")?;
    anyhow::ensure!(directory.keys.len() <= DIRECTORY_KEYS, "it has {} keys", directory.keys.len());
    let ed25519 = directory.keys.into_iter().filter(|key| key.kty == "OKP" && key.crv.as_deref() == Some("Ed25519"));
    let keys: Vec<AgentKey> = ed25519
        .filter_map(|key| {
            let public_key = BASE64_URL_SAFE_NO_PAD.decode(key.x?).ok().filter(|key| key.len() == 32)?;
            let x = BASE64_URL_SAFE_NO_PAD.encode(&public_key);
            let thumbprint = Sha256::digest(format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#));
            // Some directories use milliseconds instead of seconds.
            let millis = |end: i64| if end > 100_000_000_000 { end } else { end.saturating_mul(1_000) };
            Some(AgentKey {
                key_id: BASE64_URL_SAFE_NO_PAD.encode(thumbprint),
                agent: agent.to_owned(),
                public_key,
                expires_at: key.exp.map(|end| Timestamp::from_unix_millis(millis(end))),
            })
        })
        .collect();
    anyhow::ensure!(!keys.is_empty(), "it has no Ed25519 key");
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_thumbprints_of_the_standard() {
        // RFC 8037, appendix A.3.
        let directory = r#"{"keys": [
            {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
            {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "exp": 2000000000}
        ]}"#;
        let keys = parse_keys("ChatGPT Agent", directory).unwrap();
        assert_eq!(keys.len(), 1);
        assert_eq!(keys[0].key_id, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
        assert_eq!(keys[0].expires_at, Some(Timestamp::from_unix_millis(2_000_000_000_000)));
    }

    #[test]
    fn a_directory_without_keys_is_refused() {
        for broken in ["", "{}", r#"{"keys": []}"#, r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "short"}]}"#] {
            assert!(parse_keys("ChatGPT Agent", broken).is_err(), "{broken}");
        }
    }
}
