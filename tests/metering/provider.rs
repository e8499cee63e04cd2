//! A provider whose answers use as many tokens as the prompt says, and which records the prompts that it was sent.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::State,
    response::{IntoResponse as _, Response},
    routing::post,
};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

/// A completion that a test asks for, with the usage that the provider is to report.
#[derive(Debug, Clone)]
pub struct Completion {
    /// The prompt tokens to be reported.
    pub prompt: u64,
    /// The completion tokens to be reported.
    pub completion: u64,
    pub stream: bool,
    /// The time that the provider takes.
    pub takes: Duration,
    pub max_tokens: u64,
    pub model: &'static str,
}

impl Completion {
    /// A completion that uses these tokens, answered immediately and not streamed.
    pub fn of(prompt: u64, completion: u64) -> Self {
        let (stream, takes, max_tokens) = (false, Duration::ZERO, 100);
        Self { prompt, completion, stream, takes, max_tokens, model: "svc/gpt-oss-20b" }
    }

    pub fn streamed(self) -> Self {
        Self { stream: true, ..self }
    }

    pub fn taking(self, takes: Duration) -> Self {
        Self { takes, ..self }
    }

    pub fn at_most(self, max_tokens: u64) -> Self {
        Self { max_tokens, ..self }
    }

    pub fn by(self, model: &'static str) -> Self {
        Self { model, ..self }
    }

    pub fn request(&self) -> Value {
        let prompt = json!([self.prompt, self.completion, u64::try_from(self.takes.as_millis()).unwrap()]).to_string();
        json!({
            "model": self.model, "messages": [{ "role": "user", "content": prompt }],
            "max_tokens": self.max_tokens, "stream": self.stream,
        })
    }
}

/// The provider. Its server stops when the value is dropped.
pub struct PromptedProvider {
    /// The base URL of its API.
    pub url: String,
    asked: Arc<Mutex<Vec<u64>>>,
    server: AbortHandle,
}

impl PromptedProvider {
    pub async fn start() -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let routes = Router::new().route("/v1/chat/completions", post(complete)).with_state(asked.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, asked, server: server.abort_handle() }
    }

    /// The prompt tokens of each request, in the order of arrival.
    pub fn asked(&self) -> Vec<u64> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for PromptedProvider {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn complete(State(asked): State<Arc<Mutex<Vec<u64>>>>, Json(request): Json<Value>) -> Response {
    let spec: [u64; 3] = serde_json::from_str(request["messages"][0]["content"].as_str().unwrap()).unwrap();
    let [prompt, completion, takes] = spec;
    asked.lock().unwrap().push(prompt);
    let takes = Duration::from_millis(takes);
    let usage = json!({
        "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
    });
    let base = |object: &str, choices: Value, usage: &Value| json!({"id": "c", "object": object, "created": 1, "model": "m", "choices": choices, "usage": usage});
    if request["stream"] != true {
        tokio::time::sleep(takes).await;
        let choice =
            json!([{ "index": 0, "message": { "role": "assistant", "content": "word" }, "finish_reason": "stop" }]);
        return Json(base("chat.completion", choice, &usage)).into_response();
    }
    let word = |finish: Value| json!([{ "index": 0, "delta": { "content": "word " }, "finish_reason": finish }]);
    let object = "chat.completion.chunk";
    let mut frames: Vec<String> = (0..4).map(|_| base(object, word(Value::Null), &Value::Null).to_string()).collect();
    frames.push(base(object, word("stop".into()), &Value::Null).to_string());
    frames.push(base(object, json!([]), &usage).to_string());
    frames.push("[DONE]".to_owned());
    let pause = takes / 7;
    let body = stream::unfold(frames.into_iter(), move |mut frames| async move {
        let frame = frames.next()?;
        tokio::time::sleep(pause).await;
        Some((Ok::<_, Infallible>(Bytes::from(format!("data: {frame}\n\n"))), frames))
    });
    ([("content-type", "text/event-stream")], Body::from_stream(body)).into_response()
}
