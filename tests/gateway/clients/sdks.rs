//! The SDKs and frameworks of `docs/clients.md`, each with every shipped provider: plain and streamed answers, tools, further turns with
//! what came back, structured output, what a provider refuses, a prompt that is too long, a stream that is left, and usage.

use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    documented::{MODEL, configuration},
    run,
    vendors::{Vendors, are_all_wanted},
};
use crate::{gateway::histories::MODELS, world::tools};

const COMMON_PYTHON: &str = include_str!("cases/common.py");
const COMMON_NODE: &str = include_str!("cases/common.mjs");

/// How a client is run.
#[derive(Clone, Copy)]
enum With {
    /// Python, with the packages of this folder before its own.
    Python(&'static str),
    /// Node, with these imports in place of others.
    Node(&'static [(&'static str, &'static str)]),
}

/// A client, with what is its own.
struct Sdk {
    name: &'static str,
    heading: &'static str,
    driver: &'static str,
    with: With,
    /// Only `make clients` runs it.
    is_large: bool,
    /// Whether it shows the usage of each request.
    shows_usage: bool,
    /// The class of its error when a prompt is too long, where it has one for that.
    overflow: Option<&'static str>,
}

/// A client of which every run of the tests has every case, with usage.
const USUAL: Sdk = Sdk {
    name: "",
    heading: "",
    driver: "",
    with: With::Python(""),
    is_large: false,
    shows_usage: true,
    overflow: None,
};

const OPENAI_PYTHON: Sdk =
    Sdk { name: "openai-python", heading: "openai-python", driver: include_str!("cases/openai.py"), ..USUAL };
const OPENAI_NODE: Sdk = Sdk {
    name: "openai-node",
    heading: "openai-node",
    driver: include_str!("cases/openai.mjs"),
    with: With::Node(&[]),
    ..USUAL
};
const AI_SDK: Sdk =
    Sdk { name: "AI SDK", heading: "AI SDK", driver: include_str!("cases/ai_sdk.mjs"), with: With::Node(&[]), ..USUAL };

static SDKS: [Sdk; 15] = [
    OPENAI_PYTHON,
    Sdk { name: "openai-python 2", with: With::Python("openai2"), ..OPENAI_PYTHON },
    OPENAI_NODE,
    Sdk { name: "openai-node 6", with: With::Node(&[("openai", "openai-6")]), ..OPENAI_NODE },
    Sdk { name: "anthropic-python", heading: "anthropic-python", driver: include_str!("cases/anthropic.py"), ..USUAL },
    Sdk {
        name: "anthropic-node",
        heading: "anthropic-node",
        driver: include_str!("cases/anthropic.mjs"),
        with: With::Node(&[]),
        ..USUAL
    },
    AI_SDK,
    Sdk {
        name: "AI SDK 6",
        with: With::Node(&[("ai", "ai-6"), ("@ai-sdk/openai-compatible", "@ai-sdk/openai-compatible-2")]),
        ..AI_SDK
    },
    Sdk { name: "AI SDK, responses", heading: "AI SDK, responses", ..AI_SDK },
    Sdk {
        name: "LangChain for Python",
        heading: "LangChain for Python",
        driver: include_str!("cases/langchain.py"),
        with: With::Python("clients"),
        overflow: Some("OpenAIContextOverflowError"),
        ..USUAL
    },
    Sdk {
        name: "LangChain for JavaScript",
        heading: "LangChain for JavaScript",
        driver: include_str!("cases/langchain.mjs"),
        with: With::Node(&[]),
        overflow: Some("ContextOverflowError"),
        ..USUAL
    },
    Sdk {
        name: "Pydantic AI",
        heading: "Pydantic AI",
        driver: include_str!("cases/pydantic_ai.py"),
        with: With::Python("clients"),
        overflow: Some("ModelContextWindowExceededError"),
        ..USUAL
    },
    Sdk {
        name: "Instructor",
        heading: "Instructor",
        driver: include_str!("cases/instructor.py"),
        with: With::Python("openai2"),
        shows_usage: false,
        ..USUAL
    },
    Sdk {
        name: "LlamaIndex",
        heading: "LlamaIndex",
        driver: include_str!("cases/llama_index.py"),
        with: With::Python("more/llama_index"),
        is_large: true,
        shows_usage: false,
        ..USUAL
    },
    Sdk {
        name: "LiteLLM",
        heading: "LiteLLM",
        driver: include_str!("cases/litellm.py"),
        with: With::Python("more/litellm"),
        is_large: true,
        overflow: Some("ContextWindowExceededError"),
        ..USUAL
    },
];

/// What has its models in a file of its own.
static LLM: Sdk =
    Sdk { name: "llm", heading: "llm", driver: include_str!("cases/llm.py"), with: With::Python("clients"), ..USUAL };

pub(super) fn headings() -> impl Iterator<Item = &'static str> {
    SDKS.iter().chain([&LLM]).map(|sdk| sdk.heading)
}

impl Sdk {
    /// The program that goes through the cases with the configuration that the page shows.
    fn program(&self, vendors: &Vendors) -> Command {
        let configuration = configuration(self.heading, &vendors.address(), &vendors.key);
        match self.with {
            With::Python(packages) => {
                let mut command = tools::program("python3");
                command.args(["-c", &format!("{COMMON_PYTHON}\n{}", self.driver)]);
                if !packages.is_empty() {
                    command.env("PYTHONPATH", tools::packages(packages));
                }
                if self.name == LLM.name {
                    let folder = vendors.world.folder().join("llm");
                    let models: String = MODELS.iter().map(|(model, ..)| configuration.replace(MODEL, model)).collect();
                    write(&folder, "extra-openai-models.yaml", &models);
                    command.env("LLM_USER_PATH", folder).env("CONFIGURATION", "");
                } else {
                    command.env("CONFIGURATION", configuration);
                }
                // LiteLLM's table of prices is what it asks for elsewhere.
                command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
                command
            }
            With::Node(imports) => {
                let mut script = format!("{}\n{COMMON_NODE}\n{}", in_javascript(&configuration), self.driver);
                for (name, version) in imports {
                    script = script.replace(&format!("from \"{name}\""), &format!("from \"{version}\""));
                }
                tools::node(&script)
            }
        }
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
}

/// A function that returns the variables of a configuration, for a model.
fn in_javascript(configuration: &str) -> String {
    let (imports, rest): (Vec<_>, Vec<_>) = configuration.lines().partition(|line| line.starts_with("import "));
    let variables = rest.iter().filter_map(|line| line.strip_prefix("const ")?.split_once(" =")).map(|(name, _)| name);
    let variables = variables.collect::<Vec<_>>().join(", ");
    let rest = rest.join("\n").replace(&format!("\"{MODEL}\""), "MODEL");
    format!("{}\nconst configured = (MODEL) => {{\n{rest}\nreturn {{ {variables} }};\n}};", imports.join("\n"))
}

/// What a client makes of each case.
fn assert_case(sdk: &Sdk, said: &Value) {
    let what = format!("{}: {said}", sdk.name);
    let case = said["case"].as_str().unwrap();
    let error = &said["error"];
    match case {
        "plain" | "streamed" => assert_eq!(said["words"], "Hello there.", "{what}"),
        "tools" | "streamed_tools" => assert_eq!(said["call"], json!(["get_weather", { "city": "Paris" }]), "{what}"),
        "turns" => assert_eq!(said["words"], "It is sunny. Hello there.", "{what}"),
        "structured" | "structured_stream" => {
            assert_eq!(said["value"], json!({ "city": "Paris", "rivers": 1 }), "{what}");
        }
        "cancelled" => assert_eq!(said["words"], "word0", "{what}"),
        "refused" | "overflow" => {
            assert_eq!(error["status"], 400, "{what}");
            let is_anthropic = sdk.heading.starts_with("anthropic");
            let code = match case {
                _ if is_anthropic => "invalid_request_error",
                "refused" => "invalid_value",
                _ => "context_length_exceeded",
            };
            // LiteLLM's own error has no code.
            let is_own = sdk.overflow.is_some_and(|class| error["class"] == class);
            assert!(error["code"] == code || (is_own && error["code"].is_null()), "{what}");
            if is_anthropic {
                let is_too_long = error["message"].as_str().unwrap().starts_with("prompt is too long");
                assert_eq!(is_too_long, case == "overflow", "{what}");
            }
            if let Some(class) = sdk.overflow {
                assert_eq!(error["class"] == class, case == "overflow", "{what}");
            }
        }
        other => panic!("there is no case {other}"),
    }
}

#[tokio::test]
async fn every_sdk_works_with_every_provider_and_its_usage_is_the_ledgers() {
    let mut vendors = Vendors::start().await;
    let models = MODELS.map(|(model, ..)| model).join(" ");
    for sdk in SDKS.iter().chain([&LLM]).filter(|sdk| !sdk.is_large || are_all_wanted()) {
        let program = sdk.program(&vendors);
        let output = run(program, &vendors.world, &vendors.key, &[("MODELS", models.as_str())]).await;
        let output = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Value> = output
            .lines()
            .filter(|line| line.starts_with('{'))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let ledgers = vendors.settle(sdk.name).await;
        for (model, provider, ..) in MODELS {
            let said: Vec<_> = lines.iter().filter(|line| line["model"] == model).collect();
            assert!(said.len() >= 4, "{}: {output}", sdk.name);
            let ledger = &ledgers[provider];
            for said in &said {
                assert_case(sdk, said);
            }
            let faults = said.iter().filter(|said| said["error"].is_object()).count();
            // What is refused is not tried again.
            assert_eq!((ledger.refused, faults), (2, 2), "{}: {model}", sdk.name);
            let told = ledger.served.iter().filter(|served| served.is_story).count();
            assert_eq!(told, said.iter().filter(|said| said["case"] == "cancelled").count(), "{}: {model}", sdk.name);
            if sdk.shows_usage {
                let sum = |at: usize| said.iter().filter_map(|said| said["usage"][at].as_u64()).sum::<u64>();
                let heard = ledger.served.iter().filter(|served| !served.is_story);
                let (prompt, completion) =
                    heard.fold((0, 0), |(prompt, said), served| (prompt + served.prompt, said + served.completion));
                assert_eq!((sum(0), sum(1)), (prompt, completion), "{}: {model}: {said:?}", sdk.name);
            }
        }
    }
}
