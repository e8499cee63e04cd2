//! Keys, limits and metering of the AI gateway: each completion counted once, whoever is killed when.

mod budgets;
mod exactly_once;
mod keys;
mod limits;
mod provider;
mod usage;

use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use self::provider::{Ledger, Wish};
use crate::{
    BACKGROUND,
    world::{Actor, Builder, World, answer::Answer, eventually, request::client},
};

/// How soon usage is promised to be seen.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// A world before a provider that does as a prompt says, and somebody with a key.
struct Metered {
    world: World,
    ledger: Ledger,
    ada: Actor,
    key: String,
}

impl Metered {
    async fn start() -> Self {
        Self::start_with(|builder| builder).await
    }

    async fn start_with(configure: impl FnOnce(Builder) -> Builder) -> Self {
        let ledger = Ledger::start().await;
        let builder = World::builder().set("GATEWAY__PROVIDER_URL", &ledger.url);
        let world = configure(builder).start().await;
        let ada = world.user("ada").await;
        let key = new_key(&ada).await;
        Self { world, ledger, ada, key }
    }

    /// Asks the first edge with the first key.
    async fn ask(&self, wish: &Wish) -> Answer {
        self.ask_at(0, &self.key, wish).await
    }

    async fn ask_at(&self, edge: usize, key: &str, wish: &Wish) -> Answer {
        let edge = &self.world.edges[edge];
        edge.post("https://ai.svc.localhost/v1/chat/completions").bearer(key).json(&wish.request()).await
    }

    /// A client that borrows nothing, for many at once.
    fn asker(&self, edge: usize) -> Asker {
        let edge = &self.world.edges[edge];
        let ca = reqwest::Certificate::from_pem(&std::fs::read(self.world.ca()).unwrap()).unwrap();
        let http = client().tls_certs_only([ca]).timeout(Duration::from_secs(20)).build().unwrap();
        let url = edge.address("https://ai.svc.localhost/v1/chat/completions").to_string();
        Asker { http, url, key: self.key.clone() }
    }

    /// Rows, of which each is exact or not: id by id what Postgres has.
    async fn rows(&self, filter: &str) -> i64 {
        self.world.sql_number(&format!("SELECT count(*) FROM ai_usage WHERE {filter}")).await
    }

    async fn rows_become(&self, count: i64, filter: &str) {
        eventually(BACKGROUND, &format!("{count} rows where {filter}"), async || self.rows(filter).await == count)
            .await;
    }

    /// The sums by day are what the rows say.
    async fn assert_sums(&self) {
        for column in ["requests", "prompt_tokens", "completion_tokens", "cost_microcents"] {
            let of_rows = if column == "requests" { "count(*)".to_owned() } else { format!("sum({column})") };
            // In one statement, and so of one moment: rows may still arrive.
            let surplus = format!(
                "SELECT (SELECT coalesce({of_rows}, 0)::bigint FROM ai_usage)
                        - (SELECT coalesce(sum({column}), 0)::bigint FROM ai_usage_days)"
            );
            assert_eq!(self.world.sql_number(&surplus).await, 0, "{column}");
        }
    }
}

async fn new_key(actor: &Actor) -> String {
    let created = actor.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
    created["token"].as_str().unwrap().to_owned()
}

/// Someone with a key who asks, and may not be answered.
#[derive(Clone)]
struct Asker {
    http: Client,
    url: String,
    key: String,
}

impl Asker {
    /// The status, and the whole body if it came whole.
    async fn ask(&self, wish: &Wish) -> Option<(StatusCode, String)> {
        let answer = self.http.post(&self.url).bearer_auth(&self.key).json(&wish.request()).send().await.ok()?;
        let status = answer.status();
        Some((status, answer.text().await.ok()?))
    }

    /// Whether the answer came whole, and was one.
    async fn is_served(&self, wish: &Wish) -> bool {
        let Some((status, body)) = self.ask(wish).await else { return false };
        status == StatusCode::OK
            && if wish.stream {
                body.trim_end().ends_with("data: [DONE]") && !body.contains("\"error\"")
            } else {
                serde_json::from_str::<Value>(&body).is_ok_and(|body| body["usage"].is_object())
            }
    }
}
