//! Real clients over TLS (openai-python, openai-node, the AI SDK, curl), and a provider that is not part of this project.

use std::{
    path::Path,
    process::{Output, Stdio},
};

use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::{Gateway, create_key, served_by};
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
    for proxy in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        client.env_remove(proxy);
    }
    let output = tokio::time::timeout(BACKGROUND * 4, client.output()).await.expect("the client hangs").unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{client:?}: {error}{}", String::from_utf8_lossy(&output.stdout));
    output
}

fn python(script: &str) -> Command {
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
        let port = ports::free();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway/clients/fixtures.json");
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
async fn curl_gets_json_and_a_stream() {
    let gateway = Gateway::start_with(at_localhost).await;
    let curl = async |version: &str, fields: Value| {
        let mut command = Command::new("curl");
        let flags = ["--silent", "--show-error", "--fail-with-body", "--no-buffer", version];
        command.args(flags).arg("--cacert").arg(gateway.world.ca());
        let url = format!("https://localhost:{}/v1/chat/completions", gateway.world.public_port());
        command.args(["--header", &format!("Authorization: Bearer {}", gateway.key), &url]);
        command.args(["--header", "Content-Type: application/json", "--data"]);
        command.arg(super::request(&fields).to_string());
        run(command, &gateway.world, &gateway.key, &[]).await.stdout
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
    let gateway = Gateway::start_with(at_localhost).await;
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
