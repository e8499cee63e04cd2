//! What is served by a second provider, passes in its own format, is given again, is priced by kinds and is traced, each with the others.

use std::collections::BTreeMap;

use reqwest::Response;
use serde_json::{Value, json};

use super::{
    create_key,
    native::{MESSAGE, MESSAGE_EVENTS, RESPONSE, RESPONSE_EVENTS, json_answer, stream},
    traces::{attribute, spans},
};
use crate::{
    BACKGROUND,
    metrics::Page,
    stubs::{
        listener::Listener,
        provider::{Act, KEY, Provider, Script},
    },
    world::{Actor, World, answer::Answer, eventually, ports},
};

/// A model with prices of kinds and all endpoints of its first provider. The second has chat completions alone, and names of its own
/// for the counts in its usage.
const MODEL: &str = "svc/gpt-oss-20b";
/// A model whose provider names responses alone.
const RESPONSES_ALONE: &str = "svc/responses";
/// A model for embeddings.
const EMBEDDER: &str = "svc/bge-m3";

struct Crossed {
    world: World,
    first: Provider,
    second: Provider,
    collector: Listener,
    metrics: u16,
    ada: Actor,
    key: String,
}

impl Crossed {
    async fn start() -> Self {
        let (first, second, collector) = (Provider::start().await, Provider::start().await, Listener::start().await);
        let mut providers = serde_json::to_value(config::Gateway::default().providers).unwrap();
        providers["ovhcloud"]["base_url"] = format!("{}/v1", first.url).into();
        providers["ovhcloud"]["quirks"] = json!({ "messages_key": "bearer" });
        providers["mistral"]["base_url"] = format!("{}/v1", second.url).into();
        providers["mistral"]["quirks"] = json!({});
        providers["mistral"]["usage"] =
            json!({ "prompt": "/input_tokens", "completion": "/output_tokens", "cached_input": "/cached" });
        let models = json!({
            MODEL: {
                "provider": "ovhcloud", "upstream": "first-name", "routes": ["chat", "responses", "messages"],
                "fallback": { "provider": "mistral", "upstream": "second-name" },
                "input_cents": 200, "cached_input_cents": 100, "output_cents": 400, "reasoning_cents": 600,
            },
            RESPONSES_ALONE: {
                "provider": "ovhcloud", "upstream": "first-name", "routes": ["responses"], "input_cents": 200,
                "output_cents": 400,
            },
            EMBEDDER: {
                "provider": "ovhcloud", "upstream": "first-name", "routes": ["embeddings"], "input_cents": 200,
                "output_cents": 0,
            },
        });
        let metrics = ports::free();
        let world = World::builder()
            .variable("OVH_AI_ENDPOINTS_ACCESS_TOKEN", KEY)
            .variable("MISTRAL_API_KEY", KEY)
            .set("GATEWAY__PROVIDERS", providers)
            .set("GATEWAY__MODELS", models)
            .set("GATEWAY__QUEUE_SECONDS", 0)
            .set("TELEMETRY__TRACES_URL", &collector.url)
            .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{metrics}"))
            .set("LIMITS__GATEWAY_PER_MIN", 1_000_000)
            .set("LIMITS__GATEWAY_TOKENS_PER_DAY", 1_000_000_000)
            .start()
            .await;
        let ada = world.user("ada").await;
        let key = create_key(&ada).await;
        Self { world, first, second, collector, metrics, ada, key }
    }

    async fn send(&self, path: &str, body: &Value, fields: &[(&str, &str)]) -> Response {
        let edge = self.world.edge();
        let url = edge.address(&format!("https://ai.svc.localhost:{}{path}", self.world.public_port()));
        let mut request = edge.another_browser(false).post(url).bearer_auth(&self.key).json(body);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap()
    }

    async fn ask(&self, path: &str, body: &Value, fields: &[(&str, &str)]) -> Answer {
        Answer::read(path.to_owned(), self.send(path, body, fields).await).await
    }

    /// The completions that the API lists, by their ids, once there are so many.
    async fn listed(&self, count: usize) -> BTreeMap<String, Value> {
        let mut listed = BTreeMap::new();
        eventually(BACKGROUND, &format!("{count} completions are listed"), async || {
            let list = self.ada.get("/usage/ai/requests?limit=100").await.ok();
            let rows = list["requests"].as_array().unwrap().iter();
            listed = rows.map(|row| (row["id"].as_str().unwrap().to_owned(), row.clone())).collect();
            listed.len() >= count
        })
        .await;
        assert_eq!(listed.len(), count, "{listed:#?}");
        listed
    }

    /// The span of a completion, once it is there.
    async fn span(&self, id: &str) -> Value {
        let mut found = Value::Null;
        eventually(BACKGROUND, &format!("the span of {id} is there"), async || {
            let mut spans = spans(&self.collector).into_iter();
            found = spans.find(|span| attribute(span, "svc.completion.id") == id).unwrap_or_default();
            !found.is_null()
        })
        .await;
        found
    }
}

fn id_of(answer: &Answer) -> String {
    answer.header("x-svc-completion").to_owned()
}

fn body(path: &str, stream: bool) -> Value {
    let said = json!([{ "role": "user", "content": "Hi?" }]);
    match path {
        "/v1/responses" => json!({ "model": MODEL, "input": said, "stream": stream }),
        _ => json!({ "model": MODEL, "messages": said, "max_tokens": 100, "stream": stream }),
    }
}

#[tokio::test]
async fn what_a_second_provider_begins_is_metered_and_traced_as_its_own() {
    let crossed = Crossed::start().await;
    let path = "/v1/chat/completions";
    // It says its usage, and breaks off in the words.
    let begun = r#"{"usage":{"input_tokens":400,"output_tokens":50,"cached":600},"choices":[{"message":{"content":"H"#;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n";
    crossed.first.next(Script::error(503));
    crossed.second.next(Script(vec![Act::Send(format!("{head}{begun}").into_bytes()), Act::Close]));
    let answer = crossed.ask(path, &body(path, false), &[]).await;
    let id = id_of(&answer);
    answer.assert_openai_error(502, "upstream_error");
    // What costs nothing is no completion to look up.
    crossed.first.next(Script::error(500));
    let refused = crossed.ask(path, &body(path, false), &[]).await;
    assert!(refused.find_header("x-svc-completion").is_none(), "{:?}", refused.headers);
    // One that it serves to its end, and one of the first's.
    let mut usual = crate::stubs::provider::completion("Hello!");
    usual["usage"] = json!({ "input_tokens": 7, "output_tokens": 5 });
    crossed.first.next(Script::error(429));
    crossed.second.next(Script::json(&usual));
    let second = crossed.ask(path, &body(path, false), &[]).await.assert_status(200);
    let first = crossed.ask(path, &body(path, false), &[]).await.assert_status(200);

    let listed = crossed.listed(3).await;
    let said = |row: &Value| {
        let count = |name: &str| row[name].as_u64().unwrap();
        (row["provider"].as_str().unwrap().to_owned(), count("prompt_tokens"), count("completion_tokens"))
    };
    assert_eq!(said(&listed[&id]), ("mistral".to_owned(), 400, 50));
    assert_eq!((&listed[&id]["estimated"], &listed[&id]["ended"]), (&json!(false), &json!("provider_error")));
    assert_eq!(said(&listed[&id_of(&second)]), ("mistral".to_owned(), 7, 5));
    assert_eq!(said(&listed[&id_of(&first)]), ("ovhcloud".to_owned(), 9, 12));
    // More were cached than there are: that is the second one's word.
    let page = Page::of(crossed.metrics).await;
    let name = "svc_gateway_usage_contradictions_total";
    assert_eq!(page.labelled(name, "provider=\"mistral\""), Some(1.0));
    assert!(page.labelled(name, "provider=\"ovhcloud\"").is_none_or(|count| count < 0.5));
    for (id, provider, upstream, served) in [
        (&id, "mistral", "second-name", &crossed.second),
        (&id_of(&second), "mistral", "second-name", &crossed.second),
        (&id_of(&first), "ovhcloud", "first-name", &crossed.first),
    ] {
        let span = crossed.span(id).await;
        let of = |key| attribute(&span, key);
        assert_eq!(of("gen_ai.provider.name"), provider);
        assert_eq!((of("gen_ai.request.model"), of("gen_ai.response.model")), (json!(MODEL), json!(upstream)));
        assert!(served.url.ends_with(of("server.port").as_str().unwrap()), "{span}");
    }
}

#[tokio::test]
async fn an_edge_that_dies_while_a_second_provider_works_leaves_that_ones_name() {
    let mut crossed = Crossed::start().await;
    crossed.first.next(Script::error(503));
    crossed.second.next(Script::completion().held_after(0));
    let path = "/v1/chat/completions";
    let url = crossed.world.edge().address(&format!("https://ai.svc.localhost:{}{path}", crossed.world.public_port()));
    let request = crossed.world.edge().another_browser(false).post(url).bearer_auth(&crossed.key);
    let asking = tokio::spawn(request.json(&body(path, false)).send());
    eventually(BACKGROUND, "the second provider works", async || crossed.second.asked().len() == 1).await;
    crossed.world.edges[0].process.kill();
    assert!(asking.await.unwrap().is_err());
    crossed.world.restart_edge(0).await;
    let listed = crossed.listed(1).await;
    let row = listed.values().next().unwrap();
    assert_eq!((&row["provider"], &row["ended"]), (&json!("mistral"), &json!("lost")));
}

#[tokio::test]
async fn what_another_provider_served_or_passes_as_it_is_is_given_again() {
    let crossed = Crossed::start().await;
    let named = |text: &str| text.replace("upstream-name", MODEL);
    let without_ids = |text: &str| -> String {
        text.split_inclusive('\n').filter(|line| !line.starts_with(':') && !line.starts_with("id: ")).collect()
    };
    let mut paid = 0;
    // Of the second provider.
    for (number, stream) in [false, true].into_iter().enumerate() {
        let (path, fields) = ("/v1/chat/completions", [("idempotency-key", format!("second-{number}"))]);
        let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
        crossed.first.next(Script::error(503));
        let answer = crossed.ask(path, &body(path, stream), &fields).await.assert_status(200);
        let (firsts, seconds) = (crossed.first.asked().len(), crossed.second.asked().len());
        let again = crossed.ask(path, &body(path, stream), &fields).await.assert_status(200);
        for answer in [&answer, &again] {
            assert_eq!(answer.header("x-svc-provider"), "mistral");
        }
        assert_eq!((again.header("idempotency-replayed"), id_of(&again)), ("true", id_of(&answer)));
        assert_eq!(without_ids(&again.text()), without_ids(&answer.text()));
        assert_eq!((crossed.first.asked().len(), crossed.second.asked().len()), (firsts, seconds));
        paid += 1;
    }
    // In their own formats, byte for byte but for the ids of events, and to be gone on with.
    for (path, whole, events) in
        [("/v1/responses", RESPONSE, &RESPONSE_EVENTS[..]), ("/v1/messages", MESSAGE, &MESSAGE_EVENTS[..])]
    {
        for is_stream in [false, true] {
            let key = format!("{path}-{is_stream}");
            let fields = [("idempotency-key", key.as_str())];
            crossed.first.next(if is_stream { stream(events) } else { json_answer(whole) });
            let asked = crossed.first.asked().len();
            let answer = crossed.ask(path, &body(path, is_stream), &fields).await.assert_status(200);
            let again = crossed.ask(path, &body(path, is_stream), &fields).await.assert_status(200);
            assert_eq!(crossed.first.asked().len(), asked + 1, "{key}");
            assert_eq!((again.header("idempotency-replayed"), id_of(&again)), ("true", id_of(&answer)));
            let expected = named(&if is_stream { events.concat() } else { whole.to_owned() });
            assert_eq!(without_ids(&answer.text()), expected);
            assert_eq!(without_ids(&again.text()), expected);
            if is_stream {
                let text = answer.text();
                let second = text.lines().filter_map(|line| line.strip_prefix("id: ")).nth(1).unwrap();
                let fields = [("idempotency-key", key.as_str()), ("last-event-id", second)];
                let rest = crossed.ask(path, &body(path, true), &fields).await.assert_status(200);
                assert_eq!(without_ids(&rest.text()), named(&events[2..].concat()));
            }
            paid += 1;
        }
    }
    // Embeddings.
    let embed = json!({ "model": EMBEDDER, "input": ["a", "b"] });
    let fields = [("idempotency-key", "embeddings")];
    let asked = crossed.first.asked().len();
    let answer = crossed.ask("/v1/embeddings", &embed, &fields).await.assert_status(200);
    let again = crossed.ask("/v1/embeddings", &embed, &fields).await.assert_status(200);
    assert_eq!((again.header("idempotency-replayed"), again.text()), ("true", answer.text()));
    assert_eq!(crossed.first.asked().len(), asked + 1);
    let other = json!({ "model": EMBEDDER, "input": ["a", "c"] });
    crossed.ask("/v1/embeddings", &other, &fields).await.assert_openai_error(409, "idempotency_conflict");
    crossed.listed(paid + 1).await;
}

#[tokio::test]
async fn answers_in_their_own_format_are_priced_by_kinds_and_traced_with_their_end() {
    let crossed = Crossed::start().await;
    let response_usage = json!({
        "input_tokens": 9, "input_tokens_details": { "cached_tokens": 4 }, "output_tokens": 12,
        "output_tokens_details": { "reasoning_tokens": 3 },
    });
    let message_usage = json!({
        "input_tokens": 3, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4, "output_tokens": 12,
    });
    // Five tokens read at 2, four cached at 1; of those written three thought with at 6 and nine at 4, or, where it is not said which
    // were, all at 6: in millionths of a euro.
    let (response_cost, message_cost) = (5 * 2 + 4 + 9 * 4 + 3 * 6, 5 * 2 + 4 + 12 * 6);
    let event = |data: Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    let mut expected = Vec::new();
    for (reason, ended) in [("max_output_tokens", "length"), ("", "stop")] {
        let status = if reason.is_empty() { "completed" } else { "incomplete" };
        let response = json!({
            "id": "resp_1", "object": "response", "model": "upstream-name", "status": status, "output": [
                { "type": "message", "id": "msg_1", "role": "assistant", "content": [{ "type": "output_text", "text": "Hi!" }] },
            ],
            "incomplete_details": if reason.is_empty() { Value::Null } else { json!({ "reason": reason }) },
            "usage": response_usage,
        });
        let events = [
            event(json!({ "type": "response.created", "response": { "id": "resp_1", "model": "upstream-name" } })),
            event(json!({ "type": "response.output_text.delta", "item_id": "msg_1", "delta": "Hi!" })),
            event(json!({ "type": format!("response.{status}"), "response": response })),
        ];
        let kinds = [json!(4), Value::Null, json!(3)];
        expected.push((
            "/v1/responses",
            json_answer(&response.to_string()),
            events.to_vec(),
            ended,
            response_cost,
            kinds,
        ));
    }
    for (reason, ended) in [("tool_use", "tool_calls"), ("end_turn", "stop"), ("refusal", "content_filter")] {
        let message = json!({
            "type": "message", "id": "msg_1", "role": "assistant", "model": "upstream-name",
            "content": [{ "type": "text", "text": "Hi!" }], "stop_reason": reason, "usage": message_usage,
        });
        let mut begun = message_usage.clone();
        begun["output_tokens"] = json!(1);
        let events = [
            event(
                json!({ "type": "message_start", "message": { "id": "msg_1", "model": "upstream-name", "usage": begun } }),
            ),
            event(
                json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "Hi!" } }),
            ),
            event(
                json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 12 } }),
            ),
            event(json!({ "type": "message_stop" })),
        ];
        let kinds = [json!(4), json!(2), Value::Null];
        expected.push(("/v1/messages", json_answer(&message.to_string()), events.to_vec(), ended, message_cost, kinds));
    }
    let mut asked = BTreeMap::new();
    for (path, whole, events, ended, cost, kinds) in expected {
        for is_stream in [false, true] {
            let pieces: Vec<_> = events.iter().map(String::as_str).collect();
            crossed.first.next(if is_stream { stream(&pieces) } else { whole.clone() });
            let answer = crossed.ask(path, &body(path, is_stream), &[]).await.assert_status(200);
            // A whole answer has its cost in a header; nothing is added to what passes byte by byte.
            let header = answer.find_header("x-svc-cost").map(str::to_owned);
            assert_eq!(header, (!is_stream).then(|| cost.to_string()), "{path}");
            assert!(!answer.text().contains("cost_"), "{}", answer.text());
            asked.insert(id_of(&answer), (ended, cost, kinds.clone()));
        }
    }
    assert_eq!(crossed.first.last_asked().header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert_eq!(crossed.first.last_asked().header("x-api-key"), None);
    let listed = crossed.listed(asked.len()).await;
    for (id, (ended, cost, kinds)) in &asked {
        let row = &listed[id];
        assert_eq!((&row["ended"], &row["cost_microcents"]), (&json!(ended), &json!(cost * 100)), "{row}");
        assert_eq!(["cached_tokens", "cache_write_tokens", "reasoning_tokens"].map(|kind| row[kind].clone()), *kinds);
        let reasons = attribute(&crossed.span(id).await, "gen_ai.response.finish_reasons");
        assert_eq!(reasons, json!({ "values": [{ "stringValue": ended }] }), "{row}");
    }
}

#[tokio::test]
async fn a_provider_that_names_responses_alone_serves_every_format() {
    let crossed = Crossed::start().await;
    let described = crossed
        .world
        .edge()
        .get(&format!("https://ai.svc.localhost:{}/v1/models/{RESPONSES_ALONE}", crossed.world.public_port()));
    let described = described.bearer(&crossed.key).await.ok();
    assert_eq!(
        described["supported_endpoints"],
        json!(["/v1/chat/completions", "/v1/responses", "/v1/messages"]),
        "{described}"
    );
    for (path, asked) in [
        ("/v1/responses", "/v1/responses"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/messages", "/v1/chat/completions"),
    ] {
        let mut body = body(path, false);
        body["model"] = RESPONSES_ALONE.into();
        crossed.first.next(if path == "/v1/responses" { json_answer(RESPONSE) } else { Script::completion() });
        crossed.ask(path, &body, &[]).await.assert_status(200);
        assert_eq!(crossed.first.last_asked().path(), asked);
    }
    // What cannot pass as it is, because a tool is defined in the midst of the conversation, is translated.
    let body = json!({ "model": RESPONSES_ALONE, "input": [
        { "type": "message", "role": "user", "content": "Hi?" },
        { "type": "additional_tools", "role": "developer", "tools": [
            { "type": "function", "name": "f", "parameters": { "type": "object" } },
        ] },
    ] });
    crossed.ask("/v1/responses", &body, &[]).await.assert_status(200);
    assert_eq!(crossed.first.last_asked().path(), "/v1/chat/completions");
    crossed.listed(4).await;
}
