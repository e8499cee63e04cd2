//! The Codex CLI, as its users install it, against the gateway.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    Gateway,
    clients::{at_localhost, run},
};
use crate::{
    BACKGROUND,
    stubs::provider::{Act, Script, choice, event, usual_events},
    world::{eventually, tools},
};

/// The configuration that the guide shows.
const CONFIGURATION: &str = include_str!("clients/codex.toml");
const GUIDE: &str = include_str!("../../docs/guides/ai-gateway.md");

/// A turn in which the model calls a tool.
fn turn_with_call() -> Script {
    let arguments = json!({ "cmd": "echo made > made.txt" }).to_string();
    let (head, tail) = arguments.split_at(9);
    let call = |call: &Value| event(&json!([choice(&json!({ "tool_calls": [call] }), None)]), &Value::Null);
    Script::events(&[
        event(&json!([choice(&json!({ "role": "assistant", "reasoning_content": "I make it." }), None)]), &Value::Null),
        call(
            &json!({ "index": 0, "id": "call_1", "type": "function", "function": { "name": "exec_command", "arguments": head } }),
        ),
        call(&json!({ "index": 0, "function": { "arguments": tail } })),
        event(&json!([choice(&json!({}), Some("tool_calls"))]), &Value::Null),
        event(&json!([]), &json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 })),
        "data: [DONE]".to_owned(),
    ])
}

/// Codex in a folder of its own, which is told to do something.
pub(super) fn codex(home: &Path, base_url: &str, arguments: &[&str], prompt: &str) -> Command {
    let project = home.join("project");
    fs::create_dir_all(&project).unwrap();
    let configuration = CONFIGURATION.replace("https://ai.svc.localhost:8443/v1", base_url);
    fs::write(home.join("config.toml"), configuration).unwrap();
    let mut command = tools::codex();
    command.args(["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]);
    command.args(arguments).arg(prompt);
    command.current_dir(project).env("CODEX_HOME", home).env("HOME", home).stdin(std::process::Stdio::null());
    command
}

#[tokio::test]
async fn codex_works_through_a_task() {
    assert!(GUIDE.contains(CONFIGURATION.trim()), "the guide shows another configuration");
    let gateway = Gateway::start_with(at_localhost).await;
    let home = gateway.world.folder().join("codex");
    let base_url = format!("https://localhost:{}/v1", gateway.world.public_port());
    let with_key = [("SVC_AI_KEY", gateway.key.as_str())];

    gateway.provider.next(turn_with_call());
    let output = run(codex(&home, &base_url, &[], "Make made.txt."), &gateway.world, &gateway.key, &with_key).await;
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("wörd0 wörd1"), "{said}");
    assert_eq!(fs::read_to_string(home.join("project/made.txt")).unwrap(), "made\n");
    let asked = gateway.provider.asked();
    let [first, second] = &asked[..] else { panic!("{} requests", asked.len()) };
    let names: Vec<_> =
        first.body()["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].clone()).collect();
    assert!(
        names.contains(&json!("exec_command")) && names.contains(&json!("multi_agent_v1__spawn_agent")),
        "{names:?}"
    );
    let body = second.body();
    let [.., call, result] = &body["messages"].as_array().unwrap()[..] else { panic!("{body}") };
    assert_eq!((&call["reasoning_content"], &call["tool_calls"][0]["id"]), (&json!("I make it."), &json!("call_1")));
    assert_eq!((&result["role"], &result["tool_call_id"]), (&json!("tool"), &json!("call_1")));
    gateway.assert_charged(2, 109, 25).await;

    // A turn that is cut is tried again.
    let events = usual_events(4);
    let pieces = events.iter().take(3).map(|event| format!("{event}\n\n").into_bytes());
    gateway.provider.next(Script::stream(pieces, false).then(Act::Close));
    run(codex(&home, &base_url, &[], "Make made.txt."), &gateway.world, &gateway.key, &with_key).await;
    assert_eq!(gateway.provider.asked().len(), 4);
    let cut = "SELECT count(*) FROM ai_usage WHERE estimated";
    eventually(BACKGROUND, "the cut turn is charged", async || gateway.world.sql_number(cut).await == 1).await;
    gateway.assert_charged(3, 118, 30).await;
}
