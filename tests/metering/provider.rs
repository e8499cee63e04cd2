//! A provider whose answers use as many tokens as the prompt says, and which records the prompts that it was sent.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::post,
};
use futures_util::{StreamExt as _, stream};
use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::AbortHandle};

use crate::stubs::latency;

/// How a provider reports usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// At the end, once.
    Usual,
    /// With every word of a stream what was used so far, and all of it at the end.
    Growing,
    /// Twice at the end of a stream.
    Twice,
    /// Before the last frame with words of a stream, and never again.
    Early,
    /// Before the end of a stream; in its last frame it is nothing.
    TakenBack,
    /// Half of the answer's tokens are the model's reasoning, and only in the total.
    ReasoningInTotal,
    /// Half of the answer's tokens are the model's reasoning, which is said beside them.
    Reasoning,
    /// Half of the prompt's tokens were cached.
    Cached,
    /// For two choices together, as many as the request wants.
    TwoChoices,
}

impl Report {
    pub const ALL: [Self; 9] = [
        Self::Usual,
        Self::Growing,
        Self::Twice,
        Self::Early,
        Self::TakenBack,
        Self::ReasoningInTotal,
        Self::Reasoning,
        Self::Cached,
        Self::TwoChoices,
    ];

    /// The usage object of so many tokens.
    fn usage(self, prompt: u64, completion: u64) -> Value {
        let half = completion / 2;
        let said = if self == Self::ReasoningInTotal { completion - half } else { completion };
        let mut usage =
            json!({ "prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + completion });
        match self {
            Self::Reasoning => usage["completion_tokens_details"] = json!({ "reasoning_tokens": half }),
            Self::Cached => usage["prompt_tokens_details"] = json!({ "cached_tokens": prompt / 2 }),
            _ => {}
        }
        usage
    }
}

/// A completion that a test asks for, with the usage that the provider is to report.
#[derive(Debug, Clone)]
pub struct Completion {
    /// The prompt tokens to be reported.
    pub prompt: u64,
    /// The completion tokens to be reported.
    pub answer: u64,
    pub stream: bool,
    /// The time that the provider takes.
    pub takes: Duration,
    /// The provider does not end it before [`PromptedProvider::release`].
    pub held: bool,
    /// The provider answers 503 then.
    pub fails: bool,
    pub max_tokens: u64,
    pub model: &'static str,
    pub report: Report,
}

impl Completion {
    /// So many tokens, without delay and in one piece.
    pub fn of(prompt: u64, answer: u64) -> Self {
        let (stream, takes, held, fails, max_tokens) = (false, Duration::ZERO, false, false, 100);
        Self { prompt, answer, stream, takes, held, fails, max_tokens, model: "svc/gpt-oss-20b", report: Report::Usual }
    }

    pub fn streamed(self) -> Self {
        Self { stream: true, ..self }
    }

    pub fn held(self) -> Self {
        Self { held: true, ..self }
    }

    pub fn failing(self) -> Self {
        Self { fails: true, ..self }
    }

    pub fn at_most(self, max_tokens: u64) -> Self {
        Self { max_tokens, ..self }
    }

    pub fn by(self, model: &'static str) -> Self {
        Self { model, ..self }
    }

    /// The tokens that it reserves: those of its answer, one for each byte of its prompt, and 64 for the template.
    pub fn reserves(&self) -> u64 {
        self.max_tokens + self.request().to_string().len() as u64 + 64
    }

    pub fn request(&self) -> Value {
        let takes = u64::try_from(self.takes.as_millis()).unwrap();
        let how = u64::from(self.held) + 2 * u64::from(self.fails) + 4 * self.report as u64;
        let prompt = json!([self.prompt, self.answer, takes, how]).to_string();
        let mut request = json!({
            "model": self.model, "messages": [{ "role": "user", "content": prompt }],
            "max_tokens": self.max_tokens, "stream": self.stream,
        });
        if self.report == Report::TwoChoices {
            request["n"] = json!(2);
        }
        request
    }
}

/// The provider. Its server stops when the value is dropped.
pub struct PromptedProvider {
    /// The base URL of its API.
    pub url: String,
    state: State,
    server: AbortHandle,
}

#[derive(Clone, Default)]
struct State {
    /// The prompt tokens and the completion tokens of each request.
    asked: Arc<Mutex<Vec<(u64, u64)>>>,
    /// Held completions with fewer prompt tokens may end.
    released_below: watch::Sender<u64>,
}

impl PromptedProvider {
    pub async fn start() -> Self {
        let state = State::default();
        let routes = Router::new().route("/v1/chat/completions", post(complete)).with_state(state.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(serve(listener, routes));
        Self { url, state, server: server.abort_handle() }
    }

    /// The prompt tokens of each request, in the order of arrival.
    pub fn asked(&self) -> Vec<u64> {
        self.state.asked.lock().unwrap().iter().map(|(prompt, _)| *prompt).collect()
    }

    /// The completion tokens that it was asked for, by the prompt tokens.
    pub fn asked_for(&self) -> BTreeMap<u64, u64> {
        self.state.asked.lock().unwrap().iter().copied().collect()
    }

    /// Lets held completions end, now and later.
    pub fn release(&self) {
        self.release_below(u64::MAX);
    }

    /// Lets held completions with fewer prompt tokens than `prompt` end, now and later.
    pub fn release_below(&self, prompt: u64) {
        self.state.released_below.send_replace(prompt);
    }
}

impl Drop for PromptedProvider {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Answers every request that has arrived whole, though whoever sent it was killed right after: a provider that has a request may be
/// at work on it. axum's own server drops such a request, often before it is recorded.
async fn serve(listener: TcpListener, routes: Router) {
    while let Ok((stream, _)) = listener.accept().await {
        let answer = TowerToHyperService::new(routes.clone());
        tokio::spawn(async move {
            let _ = http1::Builder::new().half_close(true).serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

/// Words of a streamed answer before its last.
const WORDS: usize = 4;

async fn complete(extract::State(state): extract::State<State>, Json(request): Json<Value>) -> Response {
    let spec: [u64; 4] = serde_json::from_str(request["messages"][0]["content"].as_str().unwrap()).unwrap();
    let [prompt, completion, takes, how] = spec;
    let (held, fails, report) = (how & 1, how & 2 > 0, Report::ALL[usize::try_from(how >> 2).unwrap()]);
    state.asked.lock().unwrap().push((prompt, completion));
    let takes = Duration::from_millis(takes);
    let mut released_below = state.released_below.subscribe();
    let ended = async move { released_below.wait_for(|below| prompt < *below || held == 0).await.map(drop).unwrap() };
    let usage = report.usage(prompt, completion);
    let base = |object: &str, choices: Value, usage: &Value| json!({"id": "c", "object": object, "created": 1, "model": "m", "choices": choices, "usage": usage});
    let choices = if report == Report::TwoChoices { 2 } else { 1 };
    let word = if completion == 0 { "" } else { "word " };
    if fails {
        ended.await;
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if request["stream"] != true {
        latency(takes).await;
        ended.await;
        let choice = |index: usize| json!({ "index": index, "message": { "role": "assistant", "content": word }, "finish_reason": "stop" });
        let choices = (0..choices).map(choice).collect();
        return Json(base("chat.completion", choices, &usage)).into_response();
    }
    let piece = |number: usize, finish: &Value| json!([{ "index": number % choices, "delta": { "content": word }, "finish_reason": finish }]);
    let object = "chat.completion.chunk";
    let so_far = |number: usize| match report {
        Report::Growing => report.usage(prompt, completion * number as u64 / WORDS as u64),
        Report::Early if number + 1 == WORDS => usage.clone(),
        _ => Value::Null,
    };
    let mut frames: Vec<String> =
        (0..WORDS).map(|number| base(object, piece(number, &Value::Null), &so_far(number)).to_string()).collect();
    frames.extend((0..choices).map(|choice| base(object, piece(choice, &"stop".into()), &Value::Null).to_string()));
    let last = |usage: &Value| base(object, json!([]), usage).to_string();
    match report {
        Report::Early => {}
        Report::Twice => frames.extend([last(&usage), last(&usage)]),
        Report::TakenBack => frames.extend([last(&usage), last(&report.usage(0, 0))]),
        _ => frames.push(last(&usage)),
    }
    frames.push("[DONE]".to_owned());
    let pause = takes / 7;
    let end = frames.split_off(WORDS);
    let send = move |frame: String| async move {
        latency(pause).await;
        Ok::<_, Infallible>(Bytes::from(format!("data: {frame}\n\n")))
    };
    let words = stream::iter(frames).then(send);
    let end = stream::once(ended).flat_map(move |()| stream::iter(end.clone()).then(send));
    let body = words.chain(end);
    ([("content-type", "text/event-stream")], Body::from_stream(body)).into_response()
}
