//! Real clients over TLS (openai-python, openai-node, the AI SDK, curl), and a provider that is not part of this project. Every client
//! that `docs/clients.md` has a configuration for is in [`sdks`] or in [`agents`].

mod agents;
mod documented;
mod sdks;
mod sessions;
mod vendors;

use std::{
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::{Gateway, create_key, native::with_routes, served_by};
use crate::{
    BACKGROUND,
    stubs::provider::{Act, SECRET, Script, usual_events},
    world::{Builder, World, eventually, ports, tools},
};

const OPENAI_PYTHON: &str = include_str!("clients/openai.py");
const OPENAI_NODE: &str = include_str!("clients/openai.mjs");
const AI_SDK: &str = include_str!("clients/ai_sdk.mjs");
const RESPONSES_PYTHON: &str = include_str!("clients/responses.py");
const RESPONSES_NODE: &str = include_str!("clients/responses.mjs");
const RESPONSES_AI_SDK: &str = include_str!("clients/responses_ai_sdk.mjs");
const ANTHROPIC_PYTHON: &str = include_str!("clients/anthropic.py");
const ANTHROPIC_NODE: &str = include_str!("clients/anthropic.mjs");

/// Moves the gateway to `localhost`, a name that every client can resolve.
pub(super) fn at_localhost(builder: Builder) -> Builder {
    builder.set("SITE__AI_URL", "https://localhost:8443")
}

/// Runs a client against the gateway at `localhost`, and checks that it succeeds.
pub(super) async fn run(mut client: Command, world: &World, key: &str, more: &[(&str, &str)]) -> Output {
    let port = world.public_port();
    client
        .env("BASE_URL", format!("https://localhost:{port}/v1"))
        .env("API_KEY", key)
        .env("SSL_CERT_FILE", world.ca())
        .env("NODE_EXTRA_CA_CERTS", world.ca())
        .envs(more.iter().copied());
    only_loopback(&mut client);
    let output = tokio::time::timeout(BACKGROUND * 4, client.output()).await.expect("the client hangs").unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{client:?}: {error}{}", String::from_utf8_lossy(&output.stdout));
    output
}

/// Has a client reach this machine alone: what it would ask others, such as whether there is a newer version of it, is refused by a
/// proxy that is not there.
pub(super) fn only_loopback(client: &mut Command) {
    for proxy in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
        client.env(proxy, "http://127.0.0.1:9");
    }
    for without in ["no_proxy", "NO_PROXY"] {
        client.env(without, "localhost,127.0.0.1");
    }
    client.env_remove("ALL_PROXY").env_remove("all_proxy");
}

pub(super) fn python(script: &str) -> Command {
    let mut command = tools::program("python3");
    command.args(["-c", script]);
    command
}

/// `@copilotkit/aimock`, a provider that answers from fixtures.
struct Aimock {
    url: String,
    _process: Child,
}

impl Aimock {
    async fn start() -> Self {
        Self::start_with("fixtures.json").await
    }

    async fn start_with(fixtures: &str) -> Self {
        let port = ports::free();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway/clients").join(fixtures);
        let mut command = tools::npm_program("llmock");
        command.args(["--strict", "--chunk-size", "4", "--port", &port.to_string(), "--fixtures"]).arg(fixtures);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        eventually(BACKGROUND, "aimock listens", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
        })
        .await;
        Self { url: format!("http://127.0.0.1:{port}/v1"), _process: process }
    }
}

#[tokio::test]
async fn real_clients_work_with_an_independent_upstream() {
    let upstream = Aimock::start().await;
    let world = at_localhost(served_by(&upstream.url)).start().await;
    let ada = world.user("ada").await;
    let (key, cli) = (create_key(&ada).await, ada.token.clone().unwrap());
    for (name, client) in [
        ("openai-python", python(OPENAI_PYTHON)),
        ("openai-node", tools::node(OPENAI_NODE)),
        ("ai", tools::node(AI_SDK)),
        ("openai-python, responses", python(RESPONSES_PYTHON)),
        ("openai-node, responses", tools::node(RESPONSES_NODE)),
        ("ai, responses", tools::node(RESPONSES_AI_SDK)),
        ("anthropic-python", python(ANTHROPIC_PYTHON)),
        ("anthropic-node", tools::node(ANTHROPIC_NODE)),
    ] {
        let output = run(client, &world, &key, &[("CLI_TOKEN", &cli)]).await;
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "all is well", "{name}");
    }
    // All of it was counted as the upstream reported it.
    let estimated = world.sql_number("SELECT count(*) FROM ai_usage WHERE estimated").await;
    assert_eq!(estimated, 0);
}

#[tokio::test]
async fn real_clients_work_where_their_format_passes_to_the_provider() {
    // In these formats it reports the usage that it is told to.
    let upstream = Aimock::start_with("fixtures_native.json").await;
    let world = with_routes(at_localhost(served_by(&upstream.url))).start().await;
    let ada = world.user("ada").await;
    let (key, cli) = (create_key(&ada).await, ada.token.clone().unwrap());
    for (name, client) in [
        ("openai-python", python(RESPONSES_PYTHON)),
        ("openai-node", tools::node(RESPONSES_NODE)),
        ("ai", tools::node(RESPONSES_AI_SDK)),
        ("anthropic-python", python(ANTHROPIC_PYTHON)),
        ("anthropic-node", tools::node(ANTHROPIC_NODE)),
    ] {
        let output = run(client, &world, &key, &[("CLI_TOKEN", &cli)]).await;
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "all is well", "{name}");
    }
    assert_eq!(world.sql_number("SELECT count(*) FROM ai_usage WHERE estimated").await, 0);
}

/// curl, with this version of HTTP, asking for a completion with this body; with `@` before it, the body is a file's.
fn curl(gateway: &Gateway, version: &str, body: &str) -> Command {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--no-buffer", version]).arg("--cacert").arg(gateway.world.ca());
    let url = format!("https://localhost:{}/v1/chat/completions", gateway.world.public_port());
    command.args(["--header", &format!("Authorization: Bearer {}", gateway.key), &url]);
    command.args(["--header", "Content-Type: application/json", "--data-binary", body]);
    command
}

#[tokio::test]
async fn curl_gets_the_refusal_of_a_body_that_is_too_large() {
    let gateway = Gateway::start_with(at_localhost).await;
    // Over HTTP/2 it takes an answer that comes before it has sent all for a failure.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![b' '; 6 << 20]).unwrap();
    for version in ["--http1.1", "--http2"] {
        let command = curl(&gateway, version, &format!("@{}", file.path().display()));
        let output = run(command, &gateway.world, &gateway.key, &[]).await;
        let refused: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(refused["error"]["code"], "request_too_large", "{version}");
    }
}

#[tokio::test]
async fn curl_gets_json_and_a_stream() {
    let gateway = Gateway::start_with(at_localhost).await;
    let curl = async |version: &str, fields: Value| {
        let body = super::request(&fields).to_string();
        run(curl(&gateway, version, &body), &gateway.world, &gateway.key, &[]).await.stdout
    };
    for version in ["--http1.1", "--http2"] {
        let completion: Value = serde_json::from_slice(&curl(version, json!({})).await).unwrap();
        assert_eq!(completion["choices"][0]["message"]["content"], "Hello!");
        let text = String::from_utf8(curl(version, json!({ "stream": true })).await).unwrap();
        assert_eq!(super::frames_of(&text).len(), usual_events(5).len(), "{text}");
    }
}

const RETRIES_PYTHON: &str = include_str!("clients/retries.py");
const RETRIES_NODE: &str = include_str!("clients/retries.mjs");

#[tokio::test]
async fn real_clients_retry_only_when_they_should() {
    // A limit that does not end in time reaches the client.
    let gateway = Gateway::start_with(|world| at_localhost(world).set("GATEWAY__QUEUE_SECONDS", 0)).await;
    let clients = || [python(RETRIES_PYTHON), tools::node(RETRIES_NODE)];
    for client in clients() {
        // The provider is at its limit twice, and then answers.
        for _ in 0..2 {
            gateway.provider.next(Script::answer(429, &[("retry-after", "1")], SECRET.as_bytes()));
        }
        let output = run(client, &gateway.world, &gateway.key, &[("CASE", "first")]).await;
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(said["words"], "Hello!");
        assert!(said["waited"].as_f64() >= Some(2.0), "Retry-After did not reach the client: {said}");
    }
    for client in clients() {
        let events = usual_events(4);
        let pieces = events.iter().take(3).map(|event| format!("{event}\n\n").into_bytes());
        let cut = Script::stream(pieces, false).then(Act::Close);
        gateway.provider.next(cut);
        let output = run(client, &gateway.world, &gateway.key, &[("CASE", "half-way")]).await;
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&said["words"], &said["error"]), (&"wörd0 wörd1 ".into(), &"upstream_error".into()), "{said}");
    }
}

const STREAMS_PYTHON: &str = include_str!("clients/streams.py");
const STREAMS_NODE: &str = include_str!("clients/streams.mjs");
const STREAMS_AI_SDK: &str = include_str!("clients/streams_ai_sdk.mjs");

/// What providers send between the events of a stream. Passed on as they are, most of them make one of the clients fail.
const ODD: [&str; 11] = [
    "data:\n\n",
    "data: \n\n",
    "retry: 3000\n\n",
    "id: 7\n\n",
    "event: ping\n\n",
    "id: 7\nevent: ping\nretry: 1\ndata:\n\n",
    ": hm\n\n",
    ": hm\n",
    "id: 7\n: hm\n\n",
    "\r\n",
    "id: 7\n",
];

#[tokio::test]
async fn no_client_breaks_on_a_stream() {
    let gateway = Gateway::start_with(at_localhost).await;
    let events = usual_events(2);
    let mut scripts: Vec<_> = ODD
        .iter()
        .map(|odd| Script::stream(events.iter().map(|event| format!("{odd}{event}\n\n").into_bytes()), true))
        .collect();
    // The provider keeps its client waiting after the head, and the gateway writes a comment.
    let mut slow = Script::usual_stream(2);
    slow.0.insert(1, Act::Wait(Duration::from_millis(1_200)));
    scripts.push(slow);
    let whole = scripts.len();
    let long = r#"data: {"error":{"message":"This model's maximum context length is 5 tokens.","code":400}}"#;
    scripts.push(Script::events(&[long]));
    scripts.push(Script::answer(400, &[], long.trim_start_matches("data: ").as_bytes()));

    let newer = || python(STREAMS_PYTHON);
    let mut older = newer();
    older.env("PYTHONPATH", tools::older_openai_python());
    for (name, client, sdk, provider) in [
        ("openai-python", newer(), "", ""),
        ("openai-python 2", older, "", ""),
        ("openai-node", tools::node(STREAMS_NODE), "openai", ""),
        ("openai-node 6", tools::node(STREAMS_NODE), "openai-6", ""),
        ("ai", tools::node(STREAMS_AI_SDK), "ai", "@ai-sdk/openai-compatible"),
        ("ai 6", tools::node(STREAMS_AI_SDK), "ai-6", "@ai-sdk/openai-compatible-2"),
    ] {
        for script in &scripts {
            gateway.provider.next(script.clone());
        }
        let count = scripts.len().to_string();
        let more = [("COUNT", count.as_str()), ("SDK", sdk), ("PROVIDER", provider)];
        let output = run(client, &gateway.world, &gateway.key, &more).await;
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(!name.ends_with("python 2") || said["version"].as_str().unwrap().starts_with("2."), "{said}");
        for (at, heard) in said["heard"].as_array().unwrap().iter().enumerate() {
            if at < whole {
                let expected = json!({ "words": "wörd0 wörd1 ", "tokens": 2, "error": null });
                assert_eq!(heard, &expected, "{name}: {:?}", scripts[at]);
            } else {
                assert_eq!(
                    (&heard["words"], &heard["error"]),
                    (&"".into(), &"context_length_exceeded".into()),
                    "{name}"
                );
            }
        }
    }
}
