//! The agents of `docs/clients.md`, each with every shipped provider: a task with calls of its shell, usage, and an answer in the middle
//! of which it is ended. The Codex CLI and Claude Code have tests of their own.

use std::{fs, path::Path, process::Stdio};

use serde_json::Value;
use tokio::process::Command;

use super::{
    documented::{MODEL, configuration},
    only_loopback, run,
    vendors::{Vendors, are_all_wanted},
};
use crate::{
    BACKGROUND,
    gateway::histories::MODELS,
    world::{eventually, tools},
};

/// An agent, with what is its own.
struct Agent {
    heading: &'static str,
    /// Where its configuration is, below its home; a command that writes it, without one.
    file: Option<&'static str>,
    /// What is added to its configuration, because the gateway is at `localhost` here.
    at_localhost: &'static str,
    program: fn() -> Command,
    /// What stands before the prompt.
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    /// The tokens of prompts and answers that it shows its user; `None` if it shows none, or not those of every request.
    usage: fn(&str) -> Option<(u64, u64)>,
    /// Whether it writes the file itself, from what it is shown, and not with calls of its shell.
    is_without_calls: bool,
    /// Only `make clients` runs it.
    is_large: bool,
}

/// An agent of those that only `make clients` runs, with calls, and without a word on usage.
const USUAL: Agent = Agent {
    heading: "",
    file: None,
    at_localhost: "",
    program: || panic!("an agent has a program"),
    arguments: &[],
    variables: &[],
    usage: |_| None,
    is_without_calls: false,
    is_large: true,
};

static AGENTS: [Agent; 6] = [
    Agent {
        heading: "Continue",
        file: Some("config.yaml"),
        // It asks 127.0.0.1 instead, for which there is no certificate.
        at_localhost: "    requestOptions: { verifySsl: false, headers: { Host: localhost } }\n",
        program: || tools::npm_program("cn"),
        arguments: &["--config", "../config.yaml", "--auto", "-p"],
        variables: &[("CONTINUE_TELEMETRY_ENABLED", "0")],
        is_large: false,
        ..USUAL
    },
    Agent {
        heading: "opencode",
        file: Some(".config/opencode/opencode.json"),
        program: || tools::large_program("opencode-linux-x64/bin/opencode"),
        arguments: &["run", "--format", "json"],
        variables: &[("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("OPENCODE_DISABLE_MODELS_FETCH", "1")],
        ..USUAL
    },
    Agent {
        heading: "Qwen Code",
        file: Some(".qwen/.env"),
        program: || tools::large_script("@qwen-code/qwen-code/cli-entry.js"),
        arguments: &["--auth-type", "openai", "--yolo", "--output-format", "json", "-p"],
        usage: |said| {
            let messages: Value = serde_json::from_str(said.lines().last()?).ok()?;
            let usage = &messages.as_array()?.last()?["usage"];
            Some((usage["input_tokens"].as_u64()?, usage["output_tokens"].as_u64()?))
        },
        ..USUAL
    },
    Agent {
        heading: "Cline",
        program: || tools::large_program("@cline/cli-linux-x64/bin/cline"),
        arguments: &["--json"],
        // Without a service of its own that would outlive it.
        variables: &[("CLINE_SESSION_BACKEND_MODE", "local"), ("CLINE_NO_AUTO_UPDATE", "1")],
        usage: |said| {
            let last: Value = serde_json::from_str(said.lines().last()?).ok()?;
            let usage = &last["aggregateUsage"];
            Some((usage["inputTokens"].as_u64()?, usage["outputTokens"].as_u64()?))
        },
        ..USUAL
    },
    Agent {
        heading: "pi",
        file: Some(".pi/agent/models.json"),
        program: || tools::large_script("@earendil-works/pi-coding-agent/dist/bundle/cli.js"),
        arguments: &["--mode", "json", "--provider", "svc", "--model", MODEL, "-p"],
        variables: &[("PI_OFFLINE", "1"), ("PI_TELEMETRY", "0")],
        usage: |said| {
            let events = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let ended =
                events.filter(|event| event["type"] == "message_end" && event["message"]["role"] == "assistant");
            let tokens = |event: &Value, name: &str| event["message"]["usage"][name].as_u64().unwrap();
            Some(ended.fold((0, 0), |(prompt, answer), event| {
                let read = tokens(&event, "input") + tokens(&event, "cacheRead") + tokens(&event, "cacheWrite");
                (prompt + read, answer + tokens(&event, "output"))
            }))
        },
        ..USUAL
    },
    Agent {
        heading: "aider",
        file: Some(".aider.conf.yml"),
        program: || {
            let mut command = tools::program("python3");
            command.args(["-m", "aider"]).env("PYTHONPATH", tools::packages("more/aider"));
            command
        },
        arguments: &[
            "--config",
            "../.aider.conf.yml",
            "--yes-always",
            "--no-git",
            "--analytics-disable",
            "--no-check-update",
            "--message",
        ],
        variables: &[("LITELLM_LOCAL_MODEL_COST_MAP", "True")],
        is_without_calls: true,
        ..USUAL
    },
];

pub(super) fn headings() -> impl Iterator<Item = &'static str> {
    AGENTS.iter().map(|agent| agent.heading)
}

impl Agent {
    /// Writes the configuration that the page shows, for a model, into a home of its own.
    async fn configure(&self, home: &Path, vendors: &Vendors, model: &str) {
        fs::create_dir_all(home.join("project")).unwrap();
        let text = configuration(self.heading, &vendors.address(), &vendors.key).replace(MODEL, model);
        let text = text + self.at_localhost;
        if let Some(file) = self.file {
            let file = home.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        } else {
            let mut program = self.program(home, &vendors.key);
            program.args(text.split_whitespace().skip(1));
            run(program, &vendors.world, &vendors.key, &[]).await;
        }
    }

    fn program(&self, home: &Path, key: &str) -> Command {
        let mut program = (self.program)();
        let project = home.join("project");
        // opencode goes by the variable, and not by the folder that it is started in.
        program.current_dir(&project).env("PWD", &project);
        program.env("HOME", home).env("SVC_AI_KEY", key).stdin(Stdio::null());
        // What the machine's own user may have set.
        for name in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_MODEL", "XDG_CONFIG_HOME"] {
            program.env_remove(name);
        }
        program.envs(self.variables.iter().copied());
        program
    }

    /// The agent, told to do something with a model.
    fn told(&self, home: &Path, vendors: &Vendors, model: &str, prompt: &str) -> Command {
        let mut program = self.program(home, &vendors.key);
        program
            .args(self.arguments.iter().map(|argument| if *argument == MODEL { model } else { *argument }))
            .arg(prompt);
        program
    }
}

#[tokio::test]
async fn every_agent_works_through_a_task_with_every_provider() {
    let mut vendors = Vendors::start().await;
    for agent in AGENTS.iter().filter(|agent| !agent.is_large || are_all_wanted()) {
        for (model, provider, ..) in MODELS {
            let what = format!("{} with {model}", agent.heading);
            let home = vendors.world.folder().join(what.replace(['/', ' '], "-"));
            agent.configure(&home, &vendors, model).await;
            let steps = if agent.is_without_calls { 1 } else { 2 };
            let task = format!("Make made.txt in {steps} steps.");
            let told = agent.told(&home, &vendors, model, &task);
            let output = run(told, &vendors.world, &vendors.key, &[]).await;
            let said = String::from_utf8(output.stdout).unwrap();
            let made =
                fs::read_to_string(home.join("project/made.txt")).unwrap_or_else(|e| panic!("{what}: {e}: {said}"));
            let steps: Vec<_> = (1..=steps).map(|step| format!("step{step}")).collect();
            assert_eq!(made.lines().collect::<Vec<_>>(), steps, "{what}: {said}");

            let ledger = vendors.settle(&what).await.remove(provider).unwrap();
            assert_eq!(ledger.refused, 0, "{what}");
            let sums = ledger
                .served
                .iter()
                .fold((0, 0), |(prompt, answer), served| (prompt + served.prompt, answer + served.completion));
            if let Some(usage) = (agent.usage)(&said) {
                assert_eq!(usage, sums, "{what}: {said}");
            }

            // It is ended while a model speaks: all that the model says is counted.
            let mut told = agent.told(&home, &vendors, model, "Tell a long story.");
            told.env("SSL_CERT_FILE", vendors.world.ca()).env("NODE_EXTRA_CA_CERTS", vendors.world.ca());
            only_loopback(&mut told);
            let mut leaving = told.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            eventually(BACKGROUND, &format!("{what} is told a story"), async || vendors.is_story_told()).await;
            leaving.kill().await.unwrap();
            vendors.settle(&what).await;
        }
    }
}
