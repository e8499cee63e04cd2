//! Keys, limits and metering of the AI gateway: each completion is counted once, whichever process is killed and when.

mod admin_clock;
mod adoption;
mod budgets;
mod caps;
mod clusters;
mod connecting;
mod dropped_packets;
mod eviction;
mod exactly_once;
mod failover;
mod figures;
mod free_orgs;
mod full_disk;
mod journals;
mod key_sums;
mod keys;
mod leaving_clients;
mod limits;
mod load;
mod locks;
mod midnight;
mod months;
mod plan_changes;
mod plans;
pub mod provider;
mod redis_clock;
mod relay;
mod reports;
mod served;
mod silent_redis;
mod sleeping_edge;
mod spares;
mod usage;
mod usage_export;
mod wrong_clocks;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use domain::usage::UsageRow;
use live::Redis;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use self::provider::{Completion, PromptedProvider};
use crate::{
    BACKGROUND,
    world::{Actor, Builder, World, answer::Answer, eventually, request::client},
};

/// The time within which usage must be visible.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// A world with a provider that uses as many tokens as the prompt says, and a user with a key.
struct Metered {
    world: World,
    provider: PromptedProvider,
    ada: Actor,
    key: String,
}

impl Metered {
    async fn start() -> Self {
        Self::start_with(|builder| builder).await
    }

    async fn start_with(configure: impl FnOnce(Builder) -> Builder) -> Self {
        let provider = PromptedProvider::start().await;
        let builder = World::builder().set("GATEWAY__PROVIDER_URL", &provider.url);
        let world = configure(builder).start().await;
        let ada = world.user("ada").await;
        let key = new_key(&ada).await;
        Self { world, provider, ada, key }
    }

    /// Asks the first edge with the first key.
    async fn ask(&self, wanted: &Completion) -> Answer {
        self.ask_at(0, &self.key, wanted).await
    }

    async fn ask_at(&self, edge: usize, key: &str, wanted: &Completion) -> Answer {
        let edge = &self.world.edges[edge];
        edge.post("https://ai.svc.localhost/v1/chat/completions").bearer(key).json(&wanted.request()).await
    }

    /// A client that borrows nothing, for concurrent requests.
    fn asker(&self, edge: usize) -> Asker {
        let edge = &self.world.edges[edge];
        let ca = reqwest::Certificate::from_pem(&std::fs::read(self.world.ca()).unwrap()).unwrap();
        let within = 2 * BACKGROUND + sleeping_edge::stopped_for();
        // An edge that is stopped is not given up.
        let http = client().tls_certs_only([ca]).timeout(within).tcp_user_timeout(None).build().unwrap();
        let url = edge.address("https://ai.svc.localhost/v1/chat/completions").to_string();
        Asker { http, url, key: self.key.clone() }
    }

    /// The number of usage rows in Postgres for which an SQL condition holds.
    async fn rows(&self, filter: &str) -> i64 {
        self.world.sql_number(&format!("SELECT count(*) FROM ai_usage WHERE {filter}")).await
    }

    /// Waits until [`rows`](Self::rows) is `count`.
    async fn rows_become(&self, count: i64, filter: &str) {
        eventually(BACKGROUND, &format!("{count} rows where {filter}"), async || self.rows(filter).await == count)
            .await;
    }

    /// Checks that the sums by day equal the sums of the rows.
    async fn assert_sums(&self) {
        for column in [
            "requests",
            "prompt_tokens",
            "completion_tokens",
            "cost_microcents",
            "cached_tokens",
            "cache_write_tokens",
            "reasoning_tokens",
            "images",
        ] {
            // What used nothing is no request.
            let of_rows =
                if column == "requests" { "sum((certainty < 3)::int)".to_owned() } else { format!("sum({column})") };
            // In one statement, so that both are of one moment: rows may still arrive.
            let surplus = format!(
                "SELECT (SELECT coalesce({of_rows}, 0)::bigint FROM ai_usage)
                        - (SELECT coalesce(sum({column}), 0)::bigint FROM ai_usage_days)"
            );
            assert_eq!(self.world.sql_number(&surplus).await, 0, "{column}");
        }
        let of_keys = "SELECT count(*) FROM ai_usage_keys k JOIN ai_usage_versions USING (account_id)
                       WHERE keys_summed AND k.cost_microcents <> (
                           SELECT coalesce(sum(u.cost_microcents), 0) FROM ai_usage u
                           WHERE u.account_id = k.account_id AND u.token_id = k.token_id
                             AND date_trunc('month', u.created_at AT TIME ZONE 'UTC') = k.month)";
        assert_eq!(self.world.sql_number(of_keys).await, 0, "keys");
    }
}

/// The folder of the edges' journals.
fn spool(metered: &Metered) -> PathBuf {
    metered.world.folder().join("spool")
}

/// The files in a folder, those in its folders and the journals of traffic left out.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    paths
        .filter(|path| {
            path.is_file() && path.extension().is_none_or(|extension| extension != "traffic" && extension != "json")
        })
        .collect()
}

fn files(folder: &Path) -> usize {
    files_in(folder).len()
}

/// The number of reservations in Redis that contain this text, or `None` while Redis is away. Those of a cluster count for
/// each copy, too.
async fn open_in_redis(metered: &Metered, text: &str) -> Option<i64> {
    let script = "local count = 0
                  for _, key in ipairs(redis.call('KEYS', 'svc:ai:*:open')) do
                    for _, entry in ipairs(redis.call('HVALS', key)) do
                      if string.find(entry, ARGV[1], 1, true) then count = count + 1 end
                    end
                  end
                  return count";
    metered.world.redis_sum("EVAL", &[script, "0", text]).await
}

/// What the reservation of no request says of its usage.
const SPARE: &str = r#""prompt":0,"completion":0,"estimated":true,"cost":0"#;

/// The number of reservations in Redis that requests have come for, or `None` while Redis is away.
async fn asked_for_in_redis(metered: &Metered) -> Option<i64> {
    Some(open_in_redis(metered, "").await? - open_in_redis(metered, SPARE).await?)
}

/// The reservations that a Redis has.
async fn open_at(redis: &Redis) -> Vec<UsageRow> {
    let mut open = Vec::new();
    for account in redis.accounts_with_open().await.unwrap() {
        open.extend(redis.open_completions(&account).await.unwrap().into_iter().map(|open| open.row));
    }
    open
}

/// Waits until a Redis has so many reservations, none of them a spare: the next request has to ask it.
async fn only_open_are(count: usize, redis: &Redis) {
    let are_asked_for = |open: Vec<UsageRow>| open.len() == count && !open.iter().any(UsageRow::is_spare);
    eventually(BACKGROUND, "no spares are out", async || are_asked_for(open_at(redis).await)).await;
}

/// Starts a completion, and returns once the provider has been asked.
async fn begin(metered: &Metered, edge: usize, wanted: &Completion) -> tokio::task::JoinHandle<bool> {
    let asked = metered.provider.asked().len();
    let (asker, wanted) = (metered.asker(edge), wanted.clone());
    let under_way = tokio::spawn(async move { asker.is_served(&wanted).await });
    eventually(BACKGROUND, "the provider is asked", async || metered.provider.asked().len() > asked).await;
    under_way
}

async fn new_key(actor: &Actor) -> String {
    let created = actor.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
    created["token"].as_str().unwrap().to_owned()
}

/// A client with a key whose requests may fail.
#[derive(Clone)]
struct Asker {
    http: Client,
    url: String,
    key: String,
}

impl Asker {
    /// Returns the status and the body, or `None` if the answer did not come completely.
    async fn ask(&self, wanted: &Completion) -> Option<(StatusCode, String)> {
        let answer = self.http.post(&self.url).bearer_auth(&self.key).json(&wanted.request()).send().await.ok()?;
        let status = answer.status();
        Some((status, answer.text().await.ok()?))
    }

    /// Whether the answer is a complete completion.
    async fn is_served(&self, wanted: &Completion) -> bool {
        let Some((status, body)) = self.ask(wanted).await else { return false };
        status == StatusCode::OK
            && if wanted.stream {
                body.trim_end().ends_with("data: [DONE]") && !body.contains("\"error\"")
            } else {
                serde_json::from_str::<Value>(&body).is_ok_and(|body| body["usage"].is_object())
            }
    }
}
