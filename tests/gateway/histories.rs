//! Conversations as clients send them, with every shipped provider: `histories.json`, before stubs that take their own dialect alone
//! (`stubs/provider/dialects.json`). A conversation goes on with any of the others, with what the client was answered.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{create_key, frames_of};
use crate::{
    stubs::provider::{KEY, Provider, dialects::Dialect},
    world::{Builder, World, answer::Answer},
};

/// A model of each shipped provider, with the provider, the variable with its key, and its dialect.
pub(super) const MODELS: [(&str, &str, &str, &str); 3] = [
    ("svc/mistral-small", "mistral", "MISTRAL_API_KEY", "mistral"),
    ("svc/qwen3-coder-30b", "scaleway", "SCW_SECRET_KEY", "vllm"),
    ("svc/qwen3-32b", "ovhcloud", "OVH_AI_ENDPOINTS_ACCESS_TOKEN", "vllm"),
];

/// The builder of a world whose shipped providers are at these addresses, in the order of [`MODELS`].
pub(super) fn with_shipped_providers_at(urls: [&str; 3]) -> Builder {
    let mut shipped = serde_json::to_value(config::Gateway::default().providers).unwrap();
    let mut builder = World::builder();
    for ((_, name, variable, _), url) in MODELS.into_iter().zip(urls) {
        shipped[name]["base_url"] = format!("{url}/v1").into();
        builder = builder.variable(variable, KEY);
    }
    builder
        .set("GATEWAY__PROVIDERS", shipped)
        .set("GATEWAY__MODELS", seeing_models())
        .set("LIMITS__GATEWAY_PER_MIN", 1_000_000)
        .set("LIMITS__GATEWAY_TOKENS_PER_DAY", 1_000_000_000)
}

/// The shipped models, which all see images here: some conversations have them.
fn seeing_models() -> Value {
    let mut models = serde_json::to_value(config::Gateway::default().models).unwrap();
    for model in models.as_object_mut().unwrap().values_mut() {
        model["vision"] = true.into();
    }
    models
}

/// The conversations.
fn histories() -> Vec<Value> {
    serde_json::from_str(include_str!("histories.json")).unwrap()
}

/// A world with the shipped providers, each a stub that takes its own dialect alone.
struct Dialects {
    world: World,
    providers: BTreeMap<&'static str, Provider>,
    key: String,
}

impl Dialects {
    async fn start() -> Self {
        let mut providers = BTreeMap::new();
        for (model, .., dialect) in MODELS {
            providers.insert(model, Provider::start_as(Dialect::named(dialect)).await);
        }
        let urls = MODELS.map(|(model, ..)| providers[model].url.as_str());
        let world = with_shipped_providers_at(urls).start().await;
        let key = create_key(&world.user("ada").await).await;
        Self { world, providers, key }
    }

    async fn ask(&self, model: &str, request: &Value) -> Answer {
        let mut request = request.clone();
        request["model"] = model.into();
        self.post(&request.to_string()).await
    }

    async fn post(&self, body: &str) -> Answer {
        let url = format!("https://ai.svc.localhost:{}/v1/chat/completions", self.world.public_port());
        let request = self.world.edge().post(&url).bearer(&self.key).header("content-type", "application/json");
        request.body(body.to_owned()).await
    }

    /// Asks a model, which must answer as `OpenAI`'s format has it. Returns the message.
    async fn message(&self, model: &str, request: &Value, what: &str) -> Value {
        let answer = self.ask(model, request).await;
        let dialect = MODELS.iter().find(|(of, ..)| *of == model).unwrap().3;
        let sent = self.providers[model].asked().pop().map(|asked| asked.body()).unwrap_or_default();
        let judged = Dialect::named(dialect).judge(&sent);
        assert!(answer.status == 200, "{what}: {} by {judged:?}, which was sent {sent}", answer.text());
        let body = answer.json(200);
        assert_message(&body["choices"][0]["message"], what);
        body["choices"][0]["message"].clone()
    }

    /// The same as a stream.
    async fn streamed(&self, model: &str, request: &Value, what: &str) -> Value {
        let mut request = request.clone();
        request["stream"] = true.into();
        let text = self.ask(model, &request).await.assert_status(200).text();
        let (mut content, mut thoughts, mut calls) = (String::new(), String::new(), Vec::new());
        for frame in frames_of(&text).iter().filter(|frame| *frame != "[DONE]") {
            let frame: Value = serde_json::from_str(frame).unwrap();
            let delta = &frame["choices"][0]["delta"];
            assert_message(delta, what);
            content.push_str(delta["content"].as_str().unwrap_or_default());
            thoughts.push_str(delta["reasoning_content"].as_str().unwrap_or_default());
            calls.extend(delta["tool_calls"].as_array().into_iter().flatten().cloned());
        }
        let mut message = json!({ "role": "assistant", "content": content, "reasoning_content": thoughts });
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        message
    }
}

/// Checks that what is said is a string, or null.
fn assert_message(message: &Value, what: &str) {
    for name in ["content", "reasoning_content"] {
        let value = &message[name];
        assert!(value.is_string() || value.is_null(), "{what}: {name} is {value}");
    }
}

/// The request with the answer to it, results of its calls, and the user's next words.
fn continued(request: &Value, answer: &Value) -> Value {
    let mut request = request.clone();
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(answer.clone());
    for call in answer["tool_calls"].as_array().into_iter().flatten() {
        messages.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": "7" }));
    }
    messages.push(json!({ "role": "user", "content": "And then?" }));
    request
}

#[test]
fn the_stubs_refuse_what_the_providers_refuse() {
    for history in histories() {
        let what = format!("{}: {}", history["client"], history["what"]);
        let mut request = history["request"].clone();
        request["model"] = "m".into();
        let refused: Vec<_> = ["mistral", "vllm"]
            .into_iter()
            .filter(|dialect| Dialect::named(dialect).judge(&request).is_err())
            .collect();
        assert_eq!(history["refused"], json!(refused), "{what}");
    }
}

#[tokio::test]
async fn every_clients_history_goes_on_with_every_model() {
    let dialects = Dialects::start().await;
    let mut asked = 0;
    for history in histories() {
        for (model, ..) in MODELS {
            let what = format!("{}: {} ({model})", history["client"], history["what"]);
            let request = &history["request"];
            let whole = dialects.message(model, request, &what).await;
            let streamed = dialects.streamed(model, request, &what).await;
            for field in ["content", "reasoning_content"] {
                let text = |message: &Value| message[field].as_str().unwrap_or_default().to_owned();
                assert_eq!(text(&whole), text(&streamed), "{what}: {field}");
            }
            for (other, ..) in MODELS {
                for answer in [&whole, &streamed] {
                    let what = format!("{what}, gone on with {other}");
                    dialects.message(other, &continued(request, answer), &what).await;
                    asked += 1;
                }
            }
        }
    }
    assert_eq!(asked, histories().len() * MODELS.len() * MODELS.len() * 2);
}

#[tokio::test]
async fn thoughts_of_mistral_are_a_field_and_come_back() {
    let dialects = Dialects::start().await;
    let request = json!({ "reasoning_effort": "high", "messages": [{ "role": "user", "content": "1 + 1?" }] });
    let what = "thoughts";
    let whole = dialects.message("svc/mistral-small", &request, what).await;
    assert_eq!(whole, json!({ "role": "assistant", "content": "Well.", "reasoning_content": "Let me think." }));
    let streamed = dialects.streamed("svc/mistral-small", &request, what).await;
    assert_eq!(streamed, whole);
    for (model, ..) in MODELS {
        dialects.message(model, &continued(&request, &whole), what).await;
        let sent = dialects.providers[model].last_asked().body();
        let thoughts = (model != "svc/mistral-small").then_some("Let me think.");
        assert_eq!(sent["messages"][1]["reasoning_content"].as_str(), thoughts, "{model}");
    }
}

#[tokio::test]
async fn ids_of_calls_are_the_clients_own_when_they_come_back() {
    let dialects = Dialects::start().await;
    let tools = json!([{ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } }]);
    let request = json!({ "tools": tools, "messages": [{ "role": "user", "content": "Call it." }] });
    let answer = dialects.message("svc/mistral-small", &request, "calls").await;
    assert_eq!(answer["tool_calls"][0]["id"], "aB3dE6gH9");
    dialects.message("svc/mistral-small", &continued(&request, &answer), "calls").await;
    let sent = dialects.providers["svc/mistral-small"].last_asked().body();
    assert_eq!(
        (&sent["messages"][1]["tool_calls"][0]["id"], &sent["messages"][2]["tool_call_id"]),
        (&"aB3dE6gH9".into(), &"aB3dE6gH9".into())
    );
}

#[tokio::test]
async fn what_mistral_cannot_do_is_said() {
    let dialects = Dialects::start().await;
    for (field, value) in [("logprobs", json!(true)), ("top_logprobs", json!(2)), ("logit_bias", json!({ "1": 2 }))] {
        let mut request = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
        request[field] = value;
        let error = dialects.ask("svc/mistral-small", &request).await.assert_openai_error(400, "invalid_value");
        assert_eq!(error["param"], field);
        dialects.message("svc/qwen3-32b", &request, field).await;
    }
}

#[tokio::test]
async fn half_a_character_is_replaced() {
    let dialects = Dialects::start().await;
    let body = r#"{"model":"svc/qwen3-32b","messages":[{"role":"user","content":"cut \ud83d"}]}"#;
    dialects.post(body).await.assert_status(200);
    let sent = dialects.providers["svc/qwen3-32b"].last_asked().body();
    assert_eq!(sent["messages"][0]["content"], "cut \u{fffd}");
}
