//! How large a request may be: by the contract, by a plan, by a key, by the model; compressed, slow, and when there is no room.

use std::{io::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures_util::{StreamExt as _, future::join_all, stream};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{Gateway, create_key, request};
use crate::{
    BACKGROUND,
    billing::plans::{end_subscription, person, subscribe},
    metrics::Page,
    stubs::provider::{KEY, Provider},
    world::{Builder, World, eventually, ports},
};

const KB: usize = 1024;
const MB: usize = 1024 * KB;

/// The free plan as the contract has it, and one that allows what the field does.
fn plans() -> Value {
    let limits = json!({
        "projects": 1_000, "domains": 1_000, "ready_apps": 0, "bandwidth_bytes": 1_000_000_000_000_u64, "ai_credit_cents": 100_000,
    });
    let mut large = limits.clone();
    large["gateway_body_bytes"] = json!(32 * MB);
    large["gateway_max_tokens"] = json!(100_000);
    json!({
        "free": { "name": "Free", "price_cents": 0, "limits": limits },
        "large": { "name": "Large", "price_cents": 2_000, "limits": large },
    })
}

/// A request with so many bytes.
fn body_of(size: usize, fields: &Value) -> String {
    let mut body = request(fields);
    let short = body.to_string().len();
    body["messages"][0]["content"] = "x".repeat(size + "Hi?".len() - short).into();
    let body = body.to_string();
    assert_eq!(body.len(), size);
    body
}

impl Gateway {
    /// What `GET /v1/models` says that the key may ask of this model.
    async fn limits_of(&self, model: &str) -> (Value, Value) {
        let mut model = self.get(&format!("/v1/models/{model}")).await.ok();
        (model["max_request_bytes"].take(), model["max_output_tokens"].take())
    }

    async fn limit_key(&self, limits: &Value) {
        let tokens = self.ada.get("/tokens").await.ok();
        let key = tokens["tokens"].as_array().unwrap().iter().find(|token| token["kind"] == "ai").unwrap();
        let path = format!("/tokens/{}", key["id"].as_str().unwrap());
        let changed = self.ada.request(Method::PATCH, &path).json(limits).await.ok();
        for (name, limit) in limits.as_object().unwrap() {
            assert_eq!(&changed[name], limit, "{changed}");
        }
    }

    async fn refusal(&self, body: String, status: u16, code: &str) -> String {
        let error = self.post(body).await.assert_openai_error(status, code);
        error["message"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn the_plan_the_key_and_the_model_say_how_much_may_be_asked() {
    let gateway = Gateway::start_with(|world| world.set("BILLING__PLANS", plans())).await;
    let ada = person(&gateway.world, "ada").await;
    let (small, tokens) = ("svc/gpt-oss-20b", |tokens: u64| request(&json!({ "max_tokens": tokens })).to_string());

    // By the contract.
    assert_eq!(gateway.limits_of(small).await, (json!(64 * KB), json!(4_096)));
    gateway.post(body_of(64 * KB, &json!({}))).await.ok();
    let message = gateway.refusal(body_of(64 * KB + 1, &json!({})), 413, "request_too_large").await;
    assert!(message.contains("larger than 64 KB. Please reduce the length of the messages."), "{message}");
    assert!(message.contains("plan"), "{message}");
    gateway.post(tokens(4_096)).await.ok();
    let message = gateway.refusal(tokens(4_097), 400, "invalid_value").await;
    assert!(message.contains("4096") && message.contains("plan"), "{message}");

    // By a larger plan, without a restart.
    subscribe(&gateway.world, &ada, "large").await;
    let large = (json!(32 * MB), json!(100_000));
    eventually(BACKGROUND, "the plan is taken over", async || gateway.limits_of(small).await == large).await;
    let edge = gateway.world.edge();
    for client in [&edge.browser, &edge.old_browser] {
        let body = body_of(3 * MB, &json!({ "max_tokens": 100_000, "seed": 7 }));
        let url = edge.address(&gateway.url("/v1/chat/completions"));
        let answer = client.post(url).bearer_auth(&gateway.key).body(body.clone()).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let asked = gateway.provider.last_asked();
        assert_eq!((asked.body()["max_tokens"].as_u64(), asked.text.len()), (Some(100_000), body.len() - "svc/".len()));
        assert!(asked.text == body.replace("svc/", ""), "byte by byte, but for the model");
    }
    gateway.refusal(tokens(100_001), 400, "invalid_value").await;
    gateway.complete(&json!({})).await.ok();
    assert_eq!(gateway.provider.last_asked().body()["max_tokens"], 4_096, "where none is named");
    // The model itself writes no more.
    let llama = "svc/llama-3.3-70b-instruct";
    assert_eq!(gateway.limits_of(llama).await, (json!(32 * MB), json!(16_384)));
    let body = request(&json!({ "model": llama, "max_tokens": 16_385 })).to_string();
    assert!(gateway.refusal(body, 400, "invalid_value").await.contains("the model writes no more"));

    // The console says the same of what this account may.
    let shown = gateway.ada.get("/ai/models").await.ok();
    let most = |id: &str| {
        let models = shown["models"].as_array().unwrap();
        models.iter().find(|model| model["id"] == id).unwrap()["max_completion_tokens"].clone()
    };
    assert_eq!((most(llama), most(small)), (json!(16_384), json!(100_000)));

    // By a key, immediately.
    gateway.limit_key(&json!({ "gateway_body_bytes": 100 * KB, "gateway_max_tokens": 10 })).await;
    assert_eq!(gateway.limits_of(small).await, (json!(100 * KB), json!(10)));
    gateway.post(body_of(100 * KB, &json!({}))).await.ok();
    assert_eq!(gateway.provider.last_asked().body()["max_tokens"], 10);
    let message = gateway.refusal(body_of(100 * KB + 1, &json!({})), 413, "request_too_large").await;
    assert!(message.contains("larger than 100 KB") && message.contains("PATCH /tokens/:id"), "{message}");
    assert!(gateway.refusal(tokens(11), 400, "invalid_value").await.contains("PATCH /tokens/:id"));
    gateway.limit_key(&json!({ "gateway_body_bytes": 10 * MB, "monthly_limit_cents": 50_000 })).await;
    assert_eq!(gateway.limits_of(small).await, (json!(10 * MB), json!(10)));

    // A key never has more than its plan.
    end_subscription(&gateway.world, &ada).await;
    let free = (json!(64 * KB), json!(10));
    eventually(BACKGROUND, "the plan is taken away", async || gateway.limits_of(small).await == free).await;
    gateway.refusal(body_of(64 * KB + 1, &json!({})), 413, "request_too_large").await;
}

#[tokio::test]
async fn models_say_what_clients_look_for() {
    let gateway = Gateway::start().await;
    let mistral = gateway.get("/v1/models/svc/mistral-small").await.ok();
    for name in ["context_length", "context_window", "max_model_len", "max_input_tokens"] {
        assert_eq!(mistral[name], 262_144, "{name}");
    }
    for name in ["max_output_tokens", "max_completion_tokens"] {
        assert_eq!(mistral[name], 4_096, "{name}");
    }
    assert_eq!(
        (&mistral["input_modalities"], &mistral["output_modalities"]),
        (&json!(["text", "image"]), &json!(["text"]))
    );
    assert_eq!(mistral["supported_features"], json!(["tools", "reasoning", "vision"]));
    let llama = gateway.get("/v1/models/svc/llama-3.3-70b-instruct").await.ok();
    assert_eq!((&llama["input_modalities"], &llama["supported_features"]), (&json!(["text"]), &json!(["tools"])));
    let parameters = llama["supported_parameters"].as_array().unwrap();
    assert!(parameters.contains(&json!("tools")) && !parameters.contains(&json!("reasoning_effort")), "{parameters:?}");
}

#[tokio::test]
async fn what_asks_for_too_many_tokens_is_cut_where_the_operator_says_so() {
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__CLAMP_MAX_TOKENS", true)).await;
    for name in ["max_tokens", "max_completion_tokens"] {
        gateway.complete(&json!({ name: 32_000 })).await.ok();
        let body = gateway.provider.last_asked().body();
        assert_eq!((&body["max_tokens"], &body["max_completion_tokens"]), (&json!(4_096), &Value::Null));
        gateway.complete(&json!({ name: 0 })).await.assert_openai_error(400, "invalid_value");
    }
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn compressed_bodies_are_read_within_the_same_limit() {
    let gateway = Gateway::start().await;
    let edge = gateway.world.edge();
    let url = edge.address(&gateway.url("/v1/chat/completions"));
    let send = async |client: &reqwest::Client, body: Vec<u8>, coding: &str| {
        let request = client.post(url.clone()).bearer_auth(&gateway.key).header("content-encoding", coding);
        let answer = request.body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let plain = body_of(64 * KB, &json!({ "seed": 1 }));
    let over = body_of(64 * KB + 1, &json!({}));
    let bomb = vec![b' '; 64 * MB];
    for (coding, encode) in [
        ("gzip", gzip as fn(&[u8]) -> Vec<u8>),
        ("zstd", |plain: &[u8]| zstd::encode_all(plain, 3).unwrap()),
        ("identity", |plain: &[u8]| plain.to_vec()),
    ] {
        for client in [&edge.browser, &edge.old_browser] {
            assert_eq!(send(client, encode(plain.as_bytes()), coding).await.0, 200, "{coding}");
            let asked = gateway.provider.last_asked();
            assert!(asked.text.contains(r#""seed":1"#) && asked.header("content-encoding").is_none());
            for too_large in [over.as_bytes(), &bomb] {
                let (status, body) = send(client, encode(too_large), coding).await;
                assert_eq!((status, &body["error"]["code"]), (413, &json!("request_too_large")), "{coding}");
            }
            if coding != "identity" {
                let (status, body) = send(client, plain.clone().into_bytes(), coding).await;
                assert_eq!((status, &body["error"]["code"]), (400, &json!("invalid_json")), "{coding}");
                assert!(body["error"]["message"].as_str().unwrap().contains(coding), "{body}");
            }
        }
    }
    for coding in ["br", "deflate", "identity, gzip", "gzip, gzip", "zstd, gzip"] {
        let request = gateway.complete(&json!({})).header("content-encoding", coding);
        let error = request.await.assert_openai_error(415, "unsupported_media_type");
        let message = error["message"].as_str().unwrap();
        assert!(["Content-Encoding", "gzip", "zstd"].iter().all(|word| message.contains(word)), "{message}");
    }
}

/// A large request of which all comes but its last byte, until that is let go. It says how long it is.
struct HeldBack {
    size: usize,
    model: &'static str,
    end: Arc<Semaphore>,
}

impl HeldBack {
    fn of(size: usize) -> Self {
        Self { size, model: "svc/gpt-oss-20b", end: Arc::new(Semaphore::new(0)) }
    }

    async fn send(&self, gateway: &Gateway, client: &reqwest::Client, key: &str) -> u16 {
        let head = format!(
            r#"{{"model":"{}","messages":[{{"role":"developer","content":"Hm"}},{{"role":"user","content":""#,
            self.model
        );
        let tail = &br#""}]}"#[..];
        let mut left = self.size - head.len() - tail.len();
        let block = Bytes::from(vec![b'x'; 64 * KB]);
        let mut pieces = vec![Bytes::from(head)];
        while left > 0 {
            let piece = block.slice(..left.min(block.len()));
            left -= piece.len();
            pieces.push(piece);
        }
        pieces.push(Bytes::from_static(&tail[..tail.len() - 1]));
        let end = self.end.clone();
        let last = stream::once(async move {
            end.acquire().await.unwrap().forget();
            Bytes::from_static(b"}")
        });
        let body = reqwest::Body::wrap_stream(stream::iter(pieces).chain(last).map(Ok::<_, std::io::Error>));
        let url = gateway.world.edge().address(&gateway.url("/v1/chat/completions"));
        let request = client.post(url).bearer_auth(key).header("content-length", self.size.to_string()).body(body);
        request.send().await.unwrap().status().as_u16()
    }
}

/// A world whose every account may send 32 MB, with this memory, and the port of its edge's metrics.
async fn roomy(memory: &str) -> (Gateway, u16) {
    let metrics = ports::free();
    let configure = |world: Builder| {
        world
            .plan(&json!({ "gateway_body_bytes": 32 * MB, "ai_credit_cents": 1_000_000 }))
            .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{metrics}"))
            .set("EDGE__MEMORY", memory)
    };
    (Gateway::start_with(configure).await, metrics)
}

/// The bytes that are held of large requests.
async fn held(metrics: u16) -> f64 {
    Page::of(metrics).await.labelled("svc_edge_memory_bytes", r#"kind="requests""#).unwrap_or(-1.0)
}

#[tokio::test]
async fn a_large_body_waits_for_room_and_small_ones_do_not() {
    // Of the least memory there is 4.8 MB are for them.
    let (gateway, metrics) = roomy("0").await;
    let other = create_key(&gateway.world.user("bob").await).await;
    let edge = gateway.world.edge();
    let first = HeldBack::of(4 * MB);
    let second = HeldBack::of(3 * MB);
    second.end.add_permits(1);
    let (of_first, of_second, ()) = tokio::join!(
        first.send(&gateway, &edge.old_browser, &gateway.key),
        async {
            eventually(BACKGROUND, "it is read", async || held(metrics).await > 4e6).await;
            second.send(&gateway, &edge.browser, &other).await
        },
        async {
            eventually(BACKGROUND, "it is read", async || held(metrics).await > 4e6).await;
            gateway.complete(&json!({})).await.ok();
            first.end.add_permits(1);
        }
    );
    assert_eq!((of_first, of_second), (200, 200));
    eventually(BACKGROUND, "nothing is held", async || held(metrics).await == 0.0).await;
}

/// Bodies of 32 MB that are read at a time. `SVC_TEST_LARGE_BODIES=16` for figures.
fn large_bodies() -> usize {
    std::env::var("SVC_TEST_LARGE_BODIES").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the figures, with `--nocapture`")]
async fn a_large_body_is_in_memory_once() {
    let (gateway, metrics) = roomy("32 GiB").await;
    let count = large_bodies();
    let mut keys = Vec::new();
    for number in 0..count {
        keys.push(create_key(&gateway.world.user(&format!("user-{number}")).await).await);
    }
    gateway.complete(&json!({})).await.ok();
    let edge = gateway.world.edge();
    let before = edge.process.memory("VmRSS");
    let bodies: Vec<_> = keys.iter().map(|_| HeldBack::of(32 * MB)).collect();
    let sent = join_all(bodies.iter().zip(&keys).enumerate().map(async |(number, (body, key))| {
        // Over both versions of HTTP.
        let client = if number % 2 == 0 { &edge.browser } else { &edge.old_browser };
        body.send(&gateway, client, key).await
    }));
    let all = async {
        let expected = f64::from(u32::try_from(count * 32 * MB).unwrap());
        eventually(Duration::from_mins(2), "all are held", async || held(metrics).await >= expected).await;
        for body in &bodies {
            body.end.add_permits(1);
        }
    };
    let (statuses, ()) = tokio::join!(sent, all);
    assert_eq!(statuses, vec![200; count]);
    let growth = edge.process.memory("VmHWM") - before;
    println!("{count} bodies of 32 MB: the edge grew by {} MB, from {} MB", growth / MB as u64, before / MB as u64);
    assert!(growth < (count * 40 * MB) as u64, "the edge grew by {growth}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the figures, with `--nocapture`")]
async fn a_large_body_is_in_memory_once_in_every_dialect() {
    let metrics = ports::free();
    let provider = Provider::start().await;
    let mut providers = serde_json::to_value(config::Gateway::default().providers).unwrap();
    for entry in providers.as_object_mut().unwrap().values_mut() {
        entry["base_url"] = format!("{}/v1", provider.url).into();
    }
    let world = World::builder()
        .set("GATEWAY__PROVIDERS", providers)
        .variable("MISTRAL_API_KEY", KEY)
        .variable("OVH_AI_ENDPOINTS_ACCESS_TOKEN", KEY)
        .set("LIMITS__GATEWAY_TOKENS_PER_DAY", 1_000_000_000)
        .plan(&json!({ "gateway_body_bytes": 32 * MB, "ai_credit_cents": 1_000_000 }))
        .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{metrics}"))
        .set("EDGE__MEMORY", "32 GiB")
        .start()
        .await;
    let ada = world.user("ada").await;
    let key = create_key(&ada).await;
    let gateway = Gateway { world, provider, ada, key };
    gateway.complete(&json!({})).await.ok();
    let edge = gateway.world.edge();
    let before = edge.process.memory("VmRSS");
    for model in ["svc/gpt-oss-20b", "svc/mistral-small"] {
        let body = HeldBack { model, ..HeldBack::of(32 * MB) };
        body.end.add_permits(1);
        assert_eq!(body.send(&gateway, &edge.browser, &gateway.key).await, 200);
        let sent = gateway.provider.last_asked().text;
        // Each dialect has rewritten the first message.
        assert!(sent.contains(r#""messages":[{"role":"system","content":"Hm"}"#), "{}", &sent[..200]);
        let growth = edge.process.memory("VmHWM") - before;
        println!("{model}: the edge grew by {} MB, from {} MB", growth / MB as u64, before / MB as u64);
        assert!(growth < 40 * MB as u64, "the edge grew by {growth} for {model}");
    }
}
