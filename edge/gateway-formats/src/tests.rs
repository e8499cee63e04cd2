//! The memory that reading a request takes, in relation to what it is charged with.

use std::{fs, process::Command};

use config::{Gateway, models::ModelCatalog};

use super::*;

const MIB: usize = 1024 * 1024;
const BODY: usize = 4 * MIB;

/// The body that a measuring process reads.
const MEASURED: &str = "SVC_TEST_MEASURED_BODY";

const MESSAGE: &str = r#""messages":[{"role":"user","content":"x"}]"#;

/// A body: what is before its elements, the element that is repeated, and what is after them.
type Shape = (CompletionApi, &'static str, &'static str, &'static str);

/// Bodies of many small elements, and one of a single text.
const SHAPES: [Shape; 27] = {
    use CompletionApi::{Chat, Messages, Responses};
    [
        (Chat, r#"{"model":"svc/qwen3-32b","messages":[{"role":"user","content":""#, "Hi. ", "\"}]}"),
        (Chat, r#"{"model":"svc/qwen3-32b","messages":["#, r#"{"role":"user","content":""}"#, "]}"),
        (Chat, r#"{"model":"svc/qwen3-32b","messages":[{"role":"user","content":["#, r#"{"type":"text"}"#, "]}]}"),
        (Chat, r#"{"model":"svc/qwen3-32b","messages":["#, "[]", "]}"),
        (Chat, r#"{"model":"svc/qwen3-32b","messages":[{"role":"user"}],"#, r#""":1"#, "}"),
        (Responses, r#"{"model":"svc/qwen3-32b","input":""#, "Hi. ", "\"}"),
        (Responses, r#"{"model":"svc/qwen3-32b","input":["#, "[]", "]}"),
        (Responses, r#"{"model":"svc/qwen3-32b","input":["#, r#"{"role":"user","content":""}"#, "]}"),
        (Responses, r#"{"model":"svc/qwen3-32b","input":["#, r#"{"role":"system","content":""}"#, "]}"),
        (Responses, r#"{"model":"svc/qwen3-32b","input":["#, r#"{"role":"assistant","content":""}"#, "]}"),
        (
            Responses,
            r#"{"model":"svc/qwen3-32b","input":[{"role":"user","content":["#,
            r#"{"type":"text","text":""}"#,
            "]}]}",
        ),
        (Responses, r#"{"model":"svc/qwen3-32b","input":[{"role":"user","content":["#, "1", "]}]}"),
        (
            Responses,
            r#"{"model":"svc/qwen3-32b","input":["#,
            r#"{"type":"function_call","call_id":"","name":"","arguments":""}"#,
            "]}",
        ),
        (
            Responses,
            r#"{"model":"svc/qwen3-32b","input":[{"role":"user","content":""},"#,
            r#"{"type":"reasoning","content":"a"},{"type":"function_call","call_id":"","name":"","arguments":""}"#,
            "]}",
        ),
        (Responses, r#"{"model":"svc/qwen3-32b","input":"","tools":["#, r#"{"type":"custom","name":"a"}"#, "]}"),
        (Responses, r#"{"model":"svc/qwen3-32b","input":"","tools":["#, "{}", "]}"),
        (
            Responses,
            r#"{"model":"svc/qwen3-32b","input":"","tool_choice":{"type":"allowed_tools","tools":["#,
            r#"{"type":"a"}"#,
            "]}}",
        ),
        (
            Messages,
            r#"{"model":"svc/qwen3-32b","max_tokens":7,"messages":[{"role":"user","content":""#,
            "Hi. ",
            "\"}]}",
        ),
        (Messages, r#"{"model":"svc/qwen3-32b","max_tokens":7,"messages":["#, r#"{"role":"user","content":""}"#, "]}"),
        (
            Messages,
            r#"{"model":"svc/qwen3-32b","max_tokens":7,"messages":[{"role":"user","content":["#,
            r#"{"type":"text","text":""}"#,
            "]}]}",
        ),
        (
            Messages,
            r#"{"model":"svc/qwen3-32b","max_tokens":7,"messages":[{"role":"user","content":["#,
            r#"{"type":""}"#,
            "]}]}",
        ),
        (
            Messages,
            r#"{"model":"svc/qwen3-32b","max_tokens":7,"messages":[{"role":"assistant","content":["#,
            r#"{"type":"tool_use","id":"","name":""}"#,
            "]}]}",
        ),
        (
            Messages,
            r#"{"model":"svc/qwen3-32b","max_tokens":7,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":["#,
            r#"{"type":"text","text":""}"#,
            "]}]}]}",
        ),
        (
            Messages,
            r#"{"model":"svc/qwen3-32b","max_tokens":7,"messages":[{"role":"assistant","content":""},"#,
            r#"{"role":"system","content":""}"#,
            "]}",
        ),
        (
            Messages,
            r#"{"model":"svc/qwen3-32b","max_tokens":7,"messages":[{"role":"user","content":""}],"tools":["#,
            r#"{"name":"a","input_schema":{}}"#,
            "]}",
        ),
        (
            Messages,
            r#"{"model":"svc/qwen3-32b","max_tokens":7,"messages":[{"role":"user","content":""}],"tools":["#,
            r#"{"type":""}"#,
            "]}",
        ),
        (
            Messages,
            r#"{"model":"svc/qwen3-32b","max_tokens":7,"messages":[{"role":"user","content":""}],"stop_sequences":["#,
            r#""""#,
            "]}",
        ),
    ]
};

fn body_of((_, before, element, after): Shape) -> String {
    let separator = if element.starts_with(['{', '[', '"', '1']) { "," } else { "" };
    let mut body = String::with_capacity(BODY + 1024);
    body.push_str(before);
    while body.len() < BODY {
        body.push_str(element);
        body.push_str(separator);
    }
    if !separator.is_empty() {
        body.pop();
    }
    body.push_str(after);
    body
}

fn status(figure: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<usize>().unwrap() * 1024
}

/// Reads one of [`SHAPES`] in this process and prints the peak of its memory. A process of its own, since the memory
/// that an earlier one has left would hide it.
#[test]
#[expect(clippy::print_stdout, reason = "the figure for the test below")]
fn measured_body() {
    let Some(shape) = std::env::var(MEASURED).ok().map(|shape| SHAPES[shape.parse::<usize>().unwrap()]) else { return };
    let config = Gateway::default();
    let models = ModelCatalog::from_config(&config, |_| Some("key".to_owned())).unwrap();
    let models = ServedModels::new(&models, &config, None).unwrap();
    let body = Bytes::from(body_of(shape));
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS");
    let read = shape.0.read(body.into(), &models, &RequestLimits::default());
    let taken = status("VmHWM").saturating_sub(before);
    let held = status("VmRSS").saturating_sub(before);
    println!("\nmeasured {} {taken} {held}", if read.is_ok() { "passes" } else { "is refused" });
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures, with `--no-capture`")]
fn reading_a_body_takes_what_it_is_charged_with() {
    let measured = format!("{}::measured_body", module_path!().split_once("::").unwrap().1);
    for (index, shape) in SHAPES.into_iter().enumerate() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &measured, "--nocapture"])
            .env(MEASURED, index.to_string())
            .output()
            .unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let figures =
            output.lines().find_map(|line| line.strip_prefix("measured ")).unwrap_or_else(|| panic!("{output}"));
        let mut figures = figures.rsplitn(3, ' ');
        // Tenths of the body, which itself is among what is taken.
        let mut next = || (BODY + figures.next().unwrap().parse::<usize>().unwrap()) * 10 / BODY;
        let (held, peak) = (next(), next());
        let outcome = figures.next().unwrap();
        println!("{:?} {:70.70} {outcome}: {peak} tenths of it at most, {held} held", shape.0, shape.2);
        // The worst bodies take twice what they are charged with.
        let charged = usize::try_from(shape.0.body_copies() * 2 * 10).unwrap();
        assert!(peak <= charged, "reading {} takes {peak} tenths of the body, of {charged}", shape.2);
    }
}

#[test]
fn a_turn_of_very_many_parts_is_translated_in_one() {
    let config = Gateway::default();
    let models = ModelCatalog::from_config(&config, |_| Some("key".to_owned())).unwrap();
    let models = ServedModels::new(&models, &config, None).unwrap();
    let item = r#"{"type":"reasoning","content":"a"},{"role":"assistant","content":"b"}"#;
    let body = format!(r#"{{"model":"svc/qwen3-32b","input":[{}]}}"#, [item; 3].join(","));
    let read = CompletionApi::Responses.read(Bytes::from(body).into(), &models, &RequestLimits::default()).unwrap();
    let sent: serde_json::Value = serde_json::from_slice(&read.body.joined()).unwrap();
    let said = serde_json::json!({ "type": "text", "text": "b" });
    assert_eq!(sent["messages"].as_array().unwrap().len(), 1);
    assert_eq!(sent["messages"][0]["content"], serde_json::json!([said, said, said]));
}

#[test]
fn tools_and_stop_sequences_are_bounded() {
    let config = Gateway::default();
    let models = ModelCatalog::from_config(&config, |_| Some("key".to_owned())).unwrap();
    let models = ServedModels::new(&models, &config, None).unwrap();
    let refused = |api: CompletionApi, fields: &str| {
        let body = format!(r#"{{"model":"svc/qwen3-32b","max_tokens":7,{fields}}}"#);
        let error = api.read(Bytes::from(body).into(), &models, &RequestLimits::default()).err()?;
        assert_eq!(error.status(), http::StatusCode::BAD_REQUEST, "{fields:.100}");
        Some(error.message().to_owned())
    };
    let list = |element: &str, count: usize| format!("[{}]", vec![element; count].join(","));
    for (api, fields, list_name, element) in [
        (CompletionApi::Responses, r#""input":"x""#, "tools", r#"{"type":"custom","name":"a"}"#),
        (CompletionApi::Messages, MESSAGE, "tools", r#"{"name":"a","input_schema":{}}"#),
        (CompletionApi::Messages, MESSAGE, "stop_sequences", r#""x""#),
    ] {
        let fields = |count| format!(r#"{fields},"{list_name}":{}"#, list(element, count));
        let most = if list_name == "tools" { limits::TRANSLATED_TOOLS } else { limits::STOP_SEQUENCES };
        assert!(refused(api, &fields(most)).is_none_or(|message| !message.contains("more than")), "{list_name}");
        assert!(refused(api, &fields(most + 1)).unwrap().contains("more than 1024"), "{list_name}");
    }
}
