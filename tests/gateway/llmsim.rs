//! The crate `llmsim` as the provider: it reports usage in the frame with the finish reason, and ignores `max_tokens`.

use std::sync::{Arc, atomic::Ordering};

use ::llmsim::{
    cli::{AppState, Config, build_router},
    stats::{SharedStats, new_shared_stats},
};
use serde_json::{Value, json};

use super::{create_key, request, served_by, words};
use crate::{BACKGROUND, world::eventually};

/// A ceiling that every answer of llmsim exceeds.
const CEILING: u64 = 5;

struct Llmsim {
    url: String,
    stats: SharedStats,
}

impl Llmsim {
    async fn start() -> Self {
        let mut config = Config::default();
        config.latency.profile = Some("instant".to_owned());
        let stats = new_shared_stats();
        let router = build_router(Arc::new(AppState::new(config, stats.clone())));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/openai/v1", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { url, stats }
    }

    /// The prompt and completion tokens of everything that it has served, by its own count.
    fn used(&self) -> (u64, u64) {
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::SeqCst);
        (read(&self.stats.prompt_tokens), read(&self.stats.completion_tokens))
    }
}

fn tokens(usage: &Value) -> (u64, u64) {
    (usage["prompt_tokens"].as_u64().unwrap(), usage["completion_tokens"].as_u64().unwrap())
}

#[tokio::test]
async fn the_reported_usage_is_metered() {
    let upstream = Llmsim::start().await;
    let world = served_by(&upstream.url).start().await;
    let ada = world.user("ada").await;
    let key = create_key(&ada).await;
    let complete = |fields: Value| {
        let url = format!("https://ai.svc.localhost:{}/v1/chat/completions", world.public_port());
        world.edge().post(&url).bearer(&key).json(&request(&fields))
    };

    let answer = complete(json!({ "max_tokens": CEILING })).await.assert_hides_provider().ok();
    assert_eq!(answer["model"], "svc/gpt-oss-20b");
    assert!(!answer["choices"][0]["message"]["content"].as_str().unwrap().is_empty(), "{answer}");
    let json_used = tokens(&answer["usage"]);
    assert_eq!(json_used, upstream.used());
    assert!(json_used.1 > CEILING, "llmsim honours max_tokens now: {answer}");

    // Another model, and a client that did not ask for usage.
    let stream = json!({ "stream": true, "model": "svc/qwen3-32b" });
    let frames = complete(stream).await.frames();
    assert!(words(&frames).split_whitespace().count() > 1, "{frames:?}");
    for frame in &frames {
        assert_eq!(frame["model"], "svc/qwen3-32b", "{frame}");
    }
    // Its last frame has the usage already: the gateway adds none.
    let reporting = frames.iter().filter(|frame| frame["usage"].is_object()).count();
    let last = frames.last().unwrap();
    assert_eq!((reporting, &last["choices"][0]["finish_reason"]), (1, &"stop".into()), "{last}");
    let stream_used = tokens(&last["usage"]);
    // llmsim counts a stream after its last byte.
    let all = (json_used.0 + stream_used.0, json_used.1 + stream_used.1);
    eventually(BACKGROUND, "it counted as much", async || upstream.used() == all).await;
    // Both models were asked for by the provider's names.
    let asked = upstream.stats.model_requests();
    assert_eq!((asked.get("gpt-oss-20b"), asked.get("Qwen3-32B")), (Some(&1), Some(&1)), "{asked:?}");

    let expected =
        json!([["svc/gpt-oss-20b", 1, json_used.0, json_used.1], ["svc/qwen3-32b", 1, stream_used.0, stream_used.1]]);
    eventually(BACKGROUND, "both are metered", async || {
        let usage = ada.get("/usage/ai").await.ok();
        let rows = usage["usage"].as_array().unwrap().iter();
        let row = |row: &Value| json!([row["model"], row["requests"], row["prompt_tokens"], row["completion_tokens"]]);
        json!(rows.map(row).collect::<Vec<_>>()) == expected
    })
    .await;
    assert_eq!(world.sql_number("SELECT count(*) FROM ai_usage WHERE estimated").await, 0);
}
