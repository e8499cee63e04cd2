//! The AI gateway's wire format, in front of a scripted provider and of independent ones. What completions cost is tested
//! in `metering`.

mod aliases;
mod answers;
mod beyond_tokens;
mod claude_code;
mod clients;
mod codex;
mod complaints;
mod crossings;
mod cuts;
mod endpoints;
mod failures;
mod fallbacks;
mod hangups;
mod histories;
mod large_answers;
mod llmsim;
mod messages;
mod models;
mod native;
mod openapi;
mod prices;
mod privacy;
mod requests;
mod responses;
mod restarts;
mod resume;
mod sizes;
mod traces;
mod tries;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};

use crate::{
    stubs::provider::{KEY, Provider, SECRET},
    world::{
        Actor, Builder, World,
        answer::{Answer, assert_keys},
        request::Request,
    },
};

/// A world in which one scripted provider serves all models, and a user with a key.
struct Gateway {
    world: World,
    provider: Provider,
    ada: Actor,
    key: String,
}

impl Gateway {
    async fn start() -> Self {
        Self::start_with(|builder| builder).await
    }

    async fn start_with(configure: impl FnOnce(Builder) -> Builder) -> Self {
        let provider = Provider::start().await;
        let world = configure(served_by(&provider.url)).start().await;
        let ada = world.user("ada").await;
        let key = create_key(&ada).await;
        Self { world, provider, ada, key }
    }

    fn url(&self, path: &str) -> String {
        format!("https://ai.svc.localhost:{}{path}", self.world.public_port())
    }

    fn get(&self, path: &str) -> Request {
        self.world.edge().get(&self.url(path)).bearer(&self.key)
    }

    fn post(&self, body: impl Into<String>) -> Request {
        let request = self.world.edge().post(&self.url("/v1/chat/completions")).bearer(&self.key);
        request.header("content-type", "application/json").body(body.into())
    }

    /// Asks for a completion with these fields beside the usual ones.
    fn complete(&self, fields: &Value) -> Request {
        self.post(request(fields).to_string())
    }

    /// Asks for a streamed completion.
    fn stream(&self) -> Request {
        self.complete(&json!({ "stream": true }))
    }
}

/// A port to which nobody can connect, until the connections that are queued for it are accepted.
async fn deaf_port() -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.listen(0).unwrap();
    let address = port.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(Ok(stream)) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
        queued.push(stream);
    }
    (port, queued)
}

/// The builder of a world in which the provider at `url` serves all models.
fn served_by(url: &str) -> Builder {
    World::builder()
        .set("GATEWAY__PROVIDER_URL", url)
        .set("GATEWAY__PROVIDER_API_KEY", KEY)
        // High enough that no test of something else meets them.
        .set("LIMITS__GATEWAY_PER_MIN", 1_000_000)
        .set("LIMITS__GATEWAY_CONCURRENT", 1_000)
        .set("LIMITS__GATEWAY_TOKENS_PER_DAY", 1_000_000_000)
}

/// Creates a key for the gateway.
async fn create_key(actor: &Actor) -> String {
    let created = actor.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
    created["token"].as_str().unwrap().to_owned()
}

/// The body of a request, with these fields beside the usual ones.
fn request(fields: &Value) -> Value {
    let mut request = json!({ "model": "svc/gpt-oss-20b", "messages": [{ "role": "user", "content": "Hi?" }] });
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    request
}

impl Answer {
    /// Checks that this is an error in `OpenAI`'s shape with nothing of the provider in it, and returns the error object.
    #[track_caller]
    fn assert_openai_error(self, status: u16, code: &str) -> Value {
        let mut body = self.assert_hides_provider().json(status);
        assert_keys(&body, "error");
        assert_keys(&body["error"], "message type param code");
        assert_eq!(body["error"]["code"], code, "{body}");
        assert!(!body["error"]["message"].as_str().unwrap().is_empty());
        assert!(body["error"]["type"].is_string(), "{body}");
        body["error"].take()
    }

    /// Checks that the answer has no header and no text of the provider, not its name of the model, and not its key.
    #[track_caller]
    fn assert_hides_provider(self) -> Self {
        let seen = format!("{:?} {}", self.headers, self.text());
        for secret in [SECRET, KEY, "upstream-name", "set-cookie"] {
            assert!(!seen.contains(secret), "{}: {secret} in {seen}", self.what);
        }
        self
    }

    /// The frames of a complete stream.
    #[track_caller]
    fn frames(self) -> Vec<Value> {
        let answer = self.assert_status(200).assert_hides_provider();
        assert!(answer.header("content-type").starts_with("text/event-stream"), "{:?}", answer.headers);
        let text = answer.text();
        let mut events = frames_of(&text);
        assert_eq!(events.pop().as_deref(), Some("[DONE]"), "{text}");
        events.iter().map(|data| serde_json::from_str(data).unwrap_or_else(|e| panic!("{e}: {data}"))).collect()
    }
}

/// The data of every server-sent event in `text`.
#[track_caller]
fn frames_of(text: &str) -> Vec<String> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let events = text.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':'));
    events.map(|event| event.strip_prefix("data: ").unwrap_or_else(|| panic!("{event}")).to_owned()).collect()
}

/// The text of a stream's choices.
fn words(frames: &[Value]) -> String {
    frames.iter().filter_map(|frame| frame["choices"][0]["delta"]["content"].as_str()).collect()
}
