//! The Claude Code CLI, as its users install it, against the gateway.

use std::{fs, path::Path, process::Stdio};

use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    Gateway,
    clients::{at_localhost, run},
};
use crate::{
    BACKGROUND,
    stubs::provider::{Script, choice, event},
    world::{eventually, tools},
};

/// The settings that the guide shows.
const SETTINGS: &str = include_str!("clients/claude_code.json");
const GUIDE: &str = include_str!("../../docs/guides/ai-gateway.md");

/// A turn in which the model calls a tool.
fn turn_with_call() -> Script {
    let arguments = json!({ "command": "echo made > made.txt", "description": "Makes the file" }).to_string();
    let (head, tail) = arguments.split_at(9);
    let said = |delta: &Value| event(&json!([choice(delta, None)]), &Value::Null);
    let call = |call: &Value| said(&json!({ "tool_calls": [call] }));
    Script::events(&[
        said(&json!({ "role": "assistant", "reasoning_content": "I make it." })),
        call(
            &json!({ "index": 0, "id": "call_1", "type": "function", "function": { "name": "Bash", "arguments": head } }),
        ),
        call(&json!({ "index": 0, "function": { "arguments": tail } })),
        event(&json!([choice(&json!({}), Some("tool_calls"))]), &Value::Null),
        event(&json!([]), &json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 })),
        "data: [DONE]".to_owned(),
    ])
}

/// Claude Code in a folder of its own, which is told to do something.
pub(super) fn claude_code(home: &Path, base_url: &str, key: &str, arguments: &[&str], prompt: &str) -> Command {
    let project = home.join("project");
    fs::create_dir_all(&project).unwrap();
    fs::create_dir_all(home.join(".claude")).unwrap();
    let settings = SETTINGS.replace("https://ai.svc.localhost:8443", base_url).replace("svc_…", key);
    fs::write(home.join(".claude/settings.json"), settings).unwrap();
    let mut command = tools::claude_code();
    command.args(arguments).args(["-p", prompt, "--output-format", "json", "--allowedTools", "Bash"]);
    command.current_dir(project).env("HOME", home).env("DISABLE_TELEMETRY", "1").env("DISABLE_AUTOUPDATER", "1");
    // What the machine's own user may have set.
    for name in
        ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "CLAUDE_CONFIG_DIR"]
    {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

#[tokio::test]
async fn claude_code_works_through_a_task() {
    assert!(GUIDE.contains(SETTINGS.trim()), "the guide shows other settings");
    let gateway = Gateway::start_with(at_localhost).await;
    let home = gateway.world.folder().join("claude");
    let base_url = format!("https://localhost:{}", gateway.world.public_port());

    gateway.provider.next(turn_with_call());
    let client = claude_code(&home, &base_url, &gateway.key, &[], "Make made.txt.");
    let output = run(client, &gateway.world, &gateway.key, &[]).await;
    let stdout = String::from_utf8(output.stdout).unwrap();
    let said: Value = serde_json::from_str(stdout.lines().last().expect("it says something")).unwrap();
    assert_eq!((&said["is_error"], &said["num_turns"]), (&json!(false), &json!(2)), "{said}");
    assert!(said["result"].as_str().unwrap().starts_with("wörd0 wörd1"), "{said}");
    assert_eq!(fs::read_to_string(home.join("project/made.txt")).unwrap(), "made\n");

    let asked = gateway.provider.asked();
    let [first, second] = &asked[..] else { panic!("{} requests", asked.len()) };
    let first = first.body();
    // It asks for 32,000 first, and is told the most that there is.
    assert_eq!((&first["model"], &first["max_tokens"]), (&json!("qwen3-coder-30b-a3b-instruct"), &json!(4096)));
    let names: Vec<_> = first["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert!(names.contains(&&json!("Bash")) && !names.contains(&&json!("DeferredToolPlaceholder")), "{names:?}");
    let body = second.body();
    let [.., call, result] = &body["messages"].as_array().unwrap()[..] else { panic!("{body}") };
    assert_eq!((&call["reasoning_content"], &call["tool_calls"][0]["id"]), (&json!("I make it."), &json!("call_1")));
    assert_eq!((&result["role"], &result["tool_call_id"]), (&json!("tool"), &json!("call_1")));

    // What it shows its user is what the ledger has.
    let usage = |name: &str| said["usage"][name].as_u64().unwrap();
    assert_eq!((usage("input_tokens"), usage("output_tokens")), (109, 25), "{said}");
    let sums = "SELECT sum(prompt_tokens * 1000 + completion_tokens)::bigint FROM ai_usage WHERE NOT estimated";
    eventually(BACKGROUND, "all is metered", async || gateway.world.sql_number(sums).await == 109_025).await;
}
