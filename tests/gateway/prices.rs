//! What a completion costs by the kinds of its tokens: in the answer, in the ledger, in the sums and in the list of completions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Gateway, create_key};
use crate::{
    BACKGROUND,
    stubs::provider::{Act, KEY, Provider, Script, choice, completion, event, usual_events},
    world::{World, answer::Answer, eventually, request::Request},
};

const MODEL: &str = "svc/gpt-oss-20b";
/// What it costs in millionths of a euro: 400 tokens read at 2, 600 cached at 1, 10 written at 4 and 40 thought with at 6.
const COST: u64 = 800 + 600 + 40 + 240;
/// What it costs where the provider says nothing of kinds: 1,000 tokens at 2 and 50 at 6.
const DEAR: u64 = 2_000 + 300;

/// Models with prices of kinds, in cents for a million tokens: 100 are a millionth of a euro for one.
fn models() -> Value {
    json!({ MODEL: {
        "provider": "ovhcloud", "upstream": "upstream-name", "input_cents": 200, "cached_input_cents": 100,
        "output_cents": 400, "reasoning_cents": 600, "image_cents": 1_000, "vision": true,
    }})
}

fn usage() -> Value {
    json!({
        "prompt_tokens": 1_000, "completion_tokens": 50, "total_tokens": 1_050,
        "prompt_tokens_details": { "cached_tokens": 600 }, "completion_tokens_details": { "reasoning_tokens": 40 },
    })
}

/// An answer with this usage, whole or as a stream.
fn script(is_stream: bool, usage: &Value, reason: &str) -> Script {
    if is_stream {
        let mut events = usual_events(2);
        let end = events.len();
        events[end - 3] = event(&json!([choice(&json!({}), Some(reason))]), &Value::Null);
        events[end - 2] = event(&json!([]), usage);
        return Script::events(&events);
    }
    let mut body = completion("Hello!");
    body["usage"] = usage.clone();
    body["choices"][0]["finish_reason"] = reason.into();
    Script::json(&body)
}

impl Gateway {
    /// Asks at a path of the gateway.
    fn ask_at(&self, path: &str, is_stream: bool) -> Request {
        let said = json!([{ "role": "user", "content": "Hi?" }]);
        let field = if path == "/v1/responses" { "input" } else { "messages" };
        let mut body = json!({ "model": MODEL, field: said, "stream": is_stream });
        if path == "/v1/messages" {
            body["max_tokens"] = json!(100);
        }
        self.world.edge().post(&self.url(path)).bearer(&self.key).json(&body)
    }

    /// The newest completions that the API lists, once there are so many.
    async fn listed(&self, count: usize) -> Vec<Value> {
        let mut listed = Vec::new();
        eventually(BACKGROUND, "the completions are listed", async || {
            let list = self.ada.get("/usage/ai/requests").await.ok();
            listed.clone_from(list["requests"].as_array().unwrap());
            listed.len() == count
        })
        .await;
        listed
    }
}

/// The `usage` that an answer says at last, whatever its format.
fn last_usage(path: &str, text: &str) -> Value {
    let said = |value: &Value| {
        let response = &value["response"];
        if response.is_object() { response["usage"].clone() } else { value["usage"].clone() }
    };
    if let Ok(whole) = serde_json::from_str::<Value>(text) {
        return said(&whole);
    }
    let frames = text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok());
    let usages: Vec<Value> = frames.map(|frame: Value| said(&frame)).filter(Value::is_object).collect();
    usages.last().unwrap_or_else(|| panic!("{path}: {text}")).clone()
}

fn completion_of(answer: &Answer) -> String {
    answer.header("x-svc-completion").to_owned()
}

#[tokio::test]
async fn answers_ledger_sums_and_list_say_the_same_cost() {
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__MODELS", models())).await;
    let silent = json!({ "prompt_tokens": 1_000, "completion_tokens": 50, "total_tokens": 1_050 });
    let (mut costs, mut reasons) = (BTreeMap::new(), BTreeMap::new());
    for path in ["/v1/chat/completions", "/v1/responses", "/v1/messages"] {
        // What the client asks for, and what the provider answers with.
        for (asked, answered) in [(false, false), (true, true), (true, false), (false, true)] {
            for (usage, cost, assumed) in
                [(&usage(), COST, Value::Null), (&silent, DEAR, json!(["cached_input", "reasoning"]))]
            {
                let reason = if answered { "length" } else { "stop" };
                gateway.provider.next(script(answered, usage, reason));
                let answer = gateway.ask_at(path, asked).await.assert_status(200);
                let what = format!("{path} {asked} {answered}");
                // It is known before the first byte, unless the answer is passed on as it comes.
                let header = answer.find_header("x-svc-cost").map(str::to_owned);
                assert_eq!(header, (!(asked && answered)).then(|| cost.to_string()), "{what}");
                let said = last_usage(path, &answer.text());
                assert_eq!((&said["cost_microeuros"], &said["cost_assumed"]), (&json!(cost), &assumed), "{what}");
                assert!(costs.insert(completion_of(&answer), cost).is_none());
                reasons.insert(completion_of(&answer), reason);
            }
        }
    }
    let listed = gateway.listed(costs.len()).await;
    let key = gateway.ada.get("/tokens").await.ok()["tokens"][0]["id"].clone();
    for row in &listed {
        let id = row["id"].as_str().unwrap();
        let cost = costs[id];
        assert_eq!(row["cost_microcents"], cost * 100, "{row}");
        let kinds = ["cached_tokens", "cache_write_tokens", "reasoning_tokens"].map(|name| row[name].clone());
        let expected = if cost == COST {
            ([json!(600), Value::Null, json!(40)], json!([]))
        } else {
            ([Value::Null, Value::Null, Value::Null], json!(["cached_input", "reasoning"]))
        };
        assert_eq!((kinds, row["assumed"].clone()), expected, "{row}");
        assert_eq!((&row["model"], &row["key"], &row["estimated"]), (&json!(MODEL), &key, &json!(false)));
        assert_eq!((&row["prompt_tokens"], &row["completion_tokens"]), (&json!(1_000), &json!(50)));
        assert_eq!(row["ended"], reasons[id], "{row}");
    }
    let all: u64 = costs.values().sum();
    let totals = gateway.ada.get("/usage/ai").await.ok()["totals"].clone();
    let half = u64::try_from(costs.len()).unwrap() / 2;
    assert_eq!(totals["cost_microcents"], all * 100);
    assert_eq!((&totals["cached_tokens"], &totals["reasoning_tokens"]), (&json!(half * 600), &json!(half * 40)));
    assert_eq!(gateway.ada.get("/usage/ai/days").await.ok()["days"][0]["usage"][0]["cost_microcents"], all * 100);
    let billed = gateway.world.sql_number("SELECT sum(cost_microcents)::bigint FROM ai_usage_keys").await;
    assert_eq!(billed, i64::try_from(all * 100).unwrap());

    // Page by page, without a doubled or a lost one.
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = gateway.ada.get(&format!("/usage/ai/requests?limit=7{cursor}")).await.ok();
        ids.extend(page["requests"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(ids, listed.iter().map(|row| row["id"].as_str().unwrap()).collect::<Vec<_>>());
    assert!(ids.is_sorted_by(|a, b| a > b), "the newest first");
    let eve = gateway.world.user("eve").await;
    assert_eq!(eve.get("/usage/ai/requests").await.ok(), json!({ "requests": [], "next_cursor": null }));
    eve.get("/usage/ai/requests?limit=0").await.assert_error(400, "invalid_request");

    // Of older completions there are only the sums.
    let old = domain::Clock::system().now() - std::time::Duration::from_hours(30 * 24 + 1);
    let id = domain::CompletionId::new(old);
    gateway.world.sql(&format!("UPDATE ai_usage SET id = '{id}' WHERE id = '{}'", ids[0])).await;
    assert_eq!(gateway.listed(ids.len() - 1).await[0]["id"], ids[1]);
    let shell = crate::cli::Shell::new(&gateway.world, gateway.ada.token.clone());
    let shown = shell.text(&["ai", "requests", "--limit", "2"]).await;
    assert!(shown.lines().count() == 3 && shown.contains(MODEL), "{shown}");
    let shown = shell.text(&["ai", "requests", "--limit", "100"]).await;
    // With a head, and without the one that is too old.
    assert!(shown.lines().count() == ids.len() && shown.contains(" 600 "), "{shown}");
    let usage = shell.text(&["ai", "usage"]).await;
    assert!(usage.contains("CACHED") && usage.contains("EUR"), "{usage}");
}

#[tokio::test]
async fn a_providers_own_names_are_read_and_the_client_gets_openais() {
    let provider = Provider::start().await;
    let mut providers = serde_json::to_value(config::Gateway::default().providers).unwrap();
    providers["ovhcloud"]["base_url"] = format!("{}/v1", provider.url).into();
    providers["ovhcloud"]["usage"] = json!({
        "prompt": "/input_tokens", "completion": "/output_tokens", "cached_input": "/cache_read_input_tokens",
        "cache_write": "/cache_creation_input_tokens", "reasoning": "/thoughts", "prompt_includes_cache": false,
    });
    let builder = World::builder().variable("OVH_AI_ENDPOINTS_ACCESS_TOKEN", KEY).set("GATEWAY__PROVIDERS", providers);
    let world = builder.set("GATEWAY__MODELS", models()).start().await;
    let ada = world.user("ada").await;
    let key = create_key(&ada).await;
    let gateway = Gateway { world, provider, ada, key };
    let usage = json!({ "input_tokens": 400, "cache_read_input_tokens": 600, "cache_creation_input_tokens": 0, "output_tokens": 50, "thoughts": 40 });
    for is_stream in [false, true] {
        gateway.provider.next(script(is_stream, &usage, "stop"));
        let answer = gateway.ask_at("/v1/chat/completions", is_stream).await.assert_status(200);
        let said = last_usage("", &answer.text());
        assert_eq!(
            said,
            json!({
                "prompt_tokens": 1_000, "completion_tokens": 50, "total_tokens": 1_050,
                "prompt_tokens_details": { "cached_tokens": 600, "cache_creation_tokens": 0 },
                "completion_tokens_details": { "reasoning_tokens": 40 }, "cost_microeuros": COST,
            })
        );
    }
    gateway.provider.next(script(true, &usage, "stop"));
    let said = last_usage("", &gateway.ask_at("/v1/messages", true).await.assert_status(200).text());
    let counts =
        ["input_tokens", "cache_read_input_tokens", "output_tokens", "cost_microeuros"].map(|name| said[name].as_u64());
    assert_eq!(counts, [Some(400), Some(600), Some(50), Some(COST)]);
    assert!(gateway.listed(3).await.iter().all(|row| row["cost_microcents"] == COST * 100));
}

#[tokio::test]
async fn images_cost_what_they_do_at_the_provider() {
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__MODELS", models())).await;
    gateway.provider.next(script(false, &usage(), "stop"));
    let image = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } });
    let messages = json!([{ "role": "user", "content": [image, image] }]);
    let answer = gateway.complete(&json!({ "model": MODEL, "messages": messages })).await.assert_status(200);
    // Ten euros for a thousand.
    assert_eq!(answer.header("x-svc-cost"), (COST + 2 * 10_000).to_string());
    assert_eq!(gateway.listed(1).await[0]["images"], 2);
    // A reservation has them, too: a key that may cost one cent cannot pay for two.
    let limited = json!({ "kind": "ai", "monthly_limit_cents": 1 });
    let created = gateway.ada.post("/tokens").json(&limited).await.created();
    let url = gateway.url("/v1/chat/completions");
    let body = json!({ "model": MODEL, "messages": messages, "max_tokens": 1 });
    let answer = gateway.world.edge().post(&url).bearer(created["token"].as_str().unwrap()).json(&body).await;
    answer.assert_openai_error(429, "limit_reached");
}

#[tokio::test]
async fn the_list_says_how_a_completion_ended() {
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__MODELS", models())).await;
    let broken =
        || Script::stream(usual_events(5).into_iter().take(4).map(|event| format!("{event}\n\n").into()), false);
    let mut expected = BTreeMap::new();
    for reason in ["tool_calls", "content_filter", "stop"] {
        gateway.provider.next(script(true, &usage(), reason));
        let answer = gateway.ask_at("/v1/chat/completions", true).await.assert_status(200);
        expected.insert(completion_of(&answer), reason);
    }
    // The provider breaks off.
    gateway.provider.next(broken().then(Act::Close));
    let id_of = |answer: &reqwest::Response| answer.headers()["x-svc-completion"].to_str().unwrap().to_owned();
    let url = gateway.world.edge().address(&gateway.url("/v1/chat/completions"));
    let ask = || {
        let body = super::request(&json!({ "stream": true }));
        gateway.world.edge().old_browser.post(url.clone()).bearer_auth(&gateway.key).json(&body).send()
    };
    let mut answer = ask().await.unwrap();
    while let Ok(Some(_)) = answer.chunk().await {}
    expected.insert(id_of(&answer), "provider_error");
    eventually(BACKGROUND, "it is counted", async || {
        gateway.ada.get("/usage/ai/requests").await.ok()["requests"].as_array().unwrap().len() == expected.len()
    })
    .await;
    // The client leaves in the middle.
    gateway.provider.next(Script::usual_stream(5).held_after(3));
    let mut answer = ask().await.unwrap();
    answer.chunk().await.unwrap().expect("a first chunk");
    let abandoned = id_of(&answer);
    drop(answer);
    eventually(BACKGROUND, "the provider is heard to its end", async || {
        gateway.provider.go_on();
        gateway.ada.get("/usage/ai/requests").await.ok()["requests"].as_array().unwrap().len() > expected.len()
    })
    .await;
    expected.insert(abandoned, "client_gone");
    let listed = gateway.listed(expected.len()).await;
    let said = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let ended: BTreeMap<_, _> = listed.iter().map(|row| (said(row, "id"), said(row, "ended"))).collect();
    let expected: BTreeMap<_, _> = expected.into_iter().map(|(id, ended)| (id, ended.to_owned())).collect();
    assert_eq!(ended, expected);
}
