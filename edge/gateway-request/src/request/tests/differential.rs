//! Checks that other parsers read requests as the gateway validates them: random requests are validated, and the bodies
//! to send are parsed by Python and JavaScript, by a parser that takes the first of two fields, by case-insensitive
//! ones, and by one that uses a part's fields regardless of its type.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use gateway_checks::WireChecks;
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use serde_json::{Value, json};

use super::*;

/// A choice of some tools.
const ALLOWED: &str =
    r#"{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}"#;
const REQUESTS: usize = 9_000;

/// Generates a field name: plain, escaped, in other case, or with characters that some parsers ignore.
fn name(plain: &'static str) -> impl Strategy<Value = String> {
    let letter = (0..plain.len(), 0..7_u8);
    (letter, prop::bool::weighted(0.25)).prop_map(move |((at, change), is_changed)| {
        if !is_changed {
            return plain.to_owned();
        }
        let (before, letter, after) = (&plain[..at], &plain[at..=at], &plain[at + 1..]);
        let code = letter.as_bytes()[0];
        match change {
            0..=2 => format!("{before}\\u{code:04x}{after}"),
            3 => format!("{before}{}{after}", letter.to_uppercase()),
            4 => plain.replace('s', "\\u017f").replace('k', "\u{212a}"),
            5 => format!("{before}{letter}\\u0000{after}"),
            _ => format!("{before}{letter}\\ud800{after}"),
        }
    })
}

fn field(plain: &'static str, values: &'static [&'static str]) -> impl Strategy<Value = String> {
    (name(plain), prop::sample::select(values)).prop_map(|(name, value)| format!("\"{name}\":{value}"))
}

fn object(fields: impl Strategy<Value = String>, most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(fields, 0..=most).prop_map(|fields| format!("{{{}}}", fields.join(" ,")))
}

fn array(elements: impl Strategy<Value = String>, most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(elements, 0..=most).prop_map(|elements| format!("[{}]", elements.join(", ")))
}

fn part() -> impl Strategy<Value = String> {
    let types = &["\"text\"", "\"image_url\"", "\"refusal\"", "\"thinking\"", "\"file\""];
    let address = &[
        "\"data:,x\"",
        "{\"url\":\"data:,x\",\"format\":\"png\"}",
        "{\"u\\u0072l\":\"a\",\"detail\":\"low\"}",
        "null",
    ];
    let thoughts = &[
        "\"so\"",
        "[{\"type\":\"text\",\"text\":\"so\"}]",
        "[{\"type\":\"text\",\"text\":null}]",
        "[{\"type\":\"file\"}]",
        "[]",
    ];
    let kinds = [
        (&types[..], field("text", &["\"x\"", "\"\"", "null"]).boxed()),
        (&["\"text\"", "\"te\\u0078t\""][..], field("text", &["\"x\"", "\"\"", "null"]).boxed()),
        (&["\"image_url\"", "\"image\\u005furl\""], field("image_url", address).boxed()),
        (&["\"refusal\""], field("refusal", &["\"no\"", "null"]).boxed()),
        (&["\"refusal\""], field("refusal", &["\"no\"", "null"]).boxed()),
        (&["\"thinking\"", "\"th\\u0069nking\""], field("thinking", thoughts).boxed()),
        (&["\"thinking\""], field("thinking", &thoughts[..3]).boxed()),
        (&["\"thinking\""], field("thinking", &thoughts[..3]).boxed()),
    ];
    let kinds = prop::sample::select(kinds.to_vec());
    let whole = kinds.prop_flat_map(|(types, content)| (field("type", types), content));
    let more = prop_oneof![
        12 => Just(String::new()),
        1 => field("type", types).prop_map(|field| format!(",{field}")),
        1 => field("image_url", address).prop_map(|field| format!(",{field}")),
        1 => field("video_url", &["\"https://example.com\"", "null"]).prop_map(|field| format!(",{field}")),
        1 => field("uuid", &["\"u\"", "null"]).prop_map(|field| format!(",{field}")),
        3 => field("cache_control", &["{\"type\":\"ephemeral\"}", "null"]).prop_map(|field| format!(",{field}")),
        1 => field("annotations", &["[]"]).prop_map(|field| format!(",{field}")),
    ];
    (whole, more).prop_map(|((kind, content), more)| format!("{{{kind},{content}{more}}}"))
}

fn message() -> impl Strategy<Value = String> {
    let content = prop_oneof![Just("\"hi\"".to_owned()), Just("null".to_owned()), array(part(), 3)];
    let roles = &[
        "user",
        "user",
        "assistant",
        "assistant",
        "\\u0061ssistant",
        "system",
        "developer",
        "tool",
        "function",
        "odd",
    ];
    let more = prop_oneof![
        8 => Just(String::new()),
        1 => field("name", &["\"ada\"", "null"]),
        1 => field("cache_control", &["{\"type\":\"ephemeral\"}", "null"]),
        1 => field("reasoning_content", &["\"so\"", "\"\"", "null", "[\"x\"]"]),
        1 => field("reasoning", &["\"so\"", "null"]),
        1 => field("refusal", &["\"no\"", "null"]),
        1 => field("prefix", &["true", "false"]),
        1 => field("tool_call_id", &["\"call_1\"", "\"abcdefghi\"", "null", "7"]),
        2 => array(call(), 2).prop_map(|calls| format!("\"tool_calls\":{calls}")),
    ];
    let more = prop::collection::vec(more, 0..3);
    (name("role"), prop::sample::select(roles), name("content"), content, more).prop_map(
        |(role, is, name, content, more)| {
            let content = format!("\"{name}\":{content}");
            let more: Vec<_> = [content].into_iter().chain(more.into_iter().filter(|more| !more.is_empty())).collect();
            format!("{{\"{role}\":\"{is}\",{}}}", more.join(","))
        },
    )
}

fn call() -> impl Strategy<Value = String> {
    let fields = prop_oneof![
        3 => field("id", &["\"call_1\"", "\"abcdefghi\"", "null"]),
        3 => field("function", &["{\"name\":\"f\",\"arguments\":\"{}\",\"x\":1}", "null", "[]"]),
        1 => field("index", &["0"]),
        1 => field("type", &["\"function\""]),
    ];
    prop_oneof![9 => object(fields, 3), 1 => Just("7".to_owned())]
}

fn tool() -> impl Strategy<Value = String> {
    let fields = prop_oneof![
        6 => field("type", &["\"function\"", "\"function\"", "\"web_search\"", "\"func\\u0074ion\""]),
        3 => field("function", &["{\"name\":\"f\"}"]),
        1 => field("web_search", &["{}", "null"]),
        1 => field("cache_control", &["{}", "null"]),
    ];
    object(fields, 2)
}

fn other() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => field("max_tokens", &["1", "4096", "4096", "null", "4097", "1.0", "1e2", "-0"]),
        8 => field("max_completion_tokens", &["7", "7", "null", "99999"]),
        8 => field("n", &["1", "2", "16", "null", "17"]),
        8 => field("stream", &["true", "false", "null"]),
        4 => object(field("include_usage", &["true", "false"]), 2).prop_map(|value| format!("\"stream_options\":{value}")),
        4 => field("store", &["true", "false", "null"]),
        4 => (name("tools"), array(tool(), 2)).prop_map(|(name, value)| format!("\"{name}\":{value}")),
        4 => field("temperature", &["1", "0.50"]),
        1 => field("models", &["[\"x\"]", "[]", "null"]),
        1 => field("best_of", &["1", "2"]),
        1 => field("logprobs", &["true", "false"]),
        1 => field("reasoning_effort", &["\"minimal\"", "\"low\"", "\"l\\u006fw\"", "null"]),
        2 => field("tool_choice", &["\"auto\"", "{\"type\":\"auto\"}", "null", ALLOWED]),
        1 => Just("\"x_unknown\":{\"model\":\"x\",\"stream\":[true]}".to_owned()),
    ]
}

fn request() -> impl Strategy<Value = String> {
    let model = field(
        "model",
        &["\"svc/qwen3-32b\"", "\"svc\\/qwen3-32\\u0062\"", "\"svc/mistral-small\"", "\"svc/qwen3-coder-30b\""],
    );
    let messages = (name("messages"), array(message(), 3)).prop_map(|(name, value)| format!("\"{name}\":{value}"));
    let more = prop::collection::vec(other(), 0..6);
    (model, messages, more).prop_flat_map(|(model, messages, more)| {
        let fields: Vec<String> = [vec![model, messages], more].concat();
        Just(fields).prop_shuffle().prop_map(|fields| format!("{{{}}}", fields.join(",")))
    })
}

/// Returns the validated request in the format of the parsers: the governed fields as sent and reserved, and the
/// content of the messages and tools that are sent.
fn judged(request: &CompletionRequest) -> Value {
    let body = request.body.joined();
    let found = RequestFields::parse(&body).unwrap().validate_judged(&request.model.model.provider.quirks).unwrap();
    let parts: BTreeMap<_, _> = found.parts().filter(|(_, count)| *count > 0).collect();
    json!({
        "model": request.model.model.upstream,
        "completion": request.max_usage.completion,
        "stream": request.is_stream,
        "usage": request.is_stream,
        "store": false,
        "tools": found.tools,
        "parts": parts,
        "images": found.images(),
    })
}

/// Returns the requests as parsed by `script`, a program of `target/tools`.
fn read(program: &str, script: &str, requests: &str) -> Vec<Vec<Value>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tools = std::env::var_os("SVC_TEST_TOOLS").map_or_else(|| root.join("../../target/tools"), PathBuf::from);
    let script: OsString = root.join("src/request/tests").join(script).into();
    let mut reader = Command::new(tools.join("venv/bin").join(program))
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}, which .ci/tools installs: {error}"));
    let mut input = reader.stdin.take().unwrap();
    let requests = requests.to_owned();
    let writing = std::thread::spawn(move || input.write_all(requests.as_bytes()));
    let output = reader.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_parser_reads_what_was_judged() {
    let wire = WireChecks::new().unwrap();
    // In the dialects of the shipped providers, but with the stream options as the parsers expect them.
    let mut config = Gateway::default();
    for provider in config.providers.values_mut() {
        provider.quirks.drop.retain(|dropped| dropped != "stream_options" && dropped != "store");
    }
    config.providers.get_mut("ovhcloud").unwrap().quirks = ProviderQuirks::default();
    config.models.values_mut().for_each(|model| model.vision = true);
    let models = ModelCatalog::from_config(&config, |_| Some("key".to_owned())).unwrap();
    let models = ServedModels::new(&models, &config, None).unwrap();
    let mut runner = TestRunner::deterministic();
    let (mut sent, mut expected, mut kinds) = (String::new(), Vec::new(), BTreeMap::<String, u64>::new());
    for _ in 0..REQUESTS {
        let body = request().new_tree(&mut runner).unwrap().current();
        wire.check_request(body.as_bytes()).unwrap();
        let body = Bytes::from(body);
        let Ok(request) = validate(&body, &models, &RequestLimits::default()) else { continue };
        let body = request.body.joined();
        let text = std::str::from_utf8(&body).unwrap();
        // Without a stream, its options pass unchanged, even under names that other parsers do not read.
        if serde_json::from_str::<Value>(text).is_err() {
            continue;
        }
        let judged = judged(&request);
        for (kind, count) in judged["parts"].as_object().unwrap() {
            *kinds.entry(kind.clone()).or_default() += count.as_u64().unwrap();
        }
        expected.push(judged);
        sent.push_str(text);
        sent.push('\n');
    }
    assert!(expected.len() > REQUESTS / 20 && expected.len() < REQUESTS, "{} are accepted", expected.len());
    assert!(kinds.len() == 4 && kinds.values().all(|count| *count > 10), "{kinds:?}");
    for (program, script) in [("python3", "readers.py"), ("node", "reader.mjs")] {
        let taken = read(program, script, &sent);
        assert_eq!(taken.len(), expected.len());
        for ((taken, judged), text) in taken.iter().zip(&expected).zip(sent.lines()) {
            for taken in taken {
                assert_eq!(taken, judged, "{program}: {text}");
            }
        }
    }
}
