use bytes::BytesMut;
use gateway_answer::sse::StreamError;
use proptest::prelude::*;

use super::*;
use crate::TranslateEvents as _;

#[derive(Debug, Default, PartialEq)]
struct Heard {
    blocks: Vec<Value>,
    stop_reason: Value,
    usage: Value,
}

/// Parses events like Anthropic's clients, and checks their order.
fn heard(events: &str) -> Heard {
    let mut heard = Heard::default();
    let (mut has_begun, mut open, mut input, mut is_over) = (false, None, String::new(), false);
    for event in events.split_terminator("\n\n") {
        let (name, data) = event.strip_prefix("event: ").and_then(|event| event.split_once("\ndata: ")).unwrap();
        let data: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"));
        assert_eq!(data["type"], name);
        assert!(!is_over && (has_begun || name == "message_start"), "{events}");
        match name {
            "message_start" => {
                assert!(!has_begun);
                has_begun = true;
                assert_eq!(data["message"]["content"], json!([]));
            }
            "ping" => {}
            "content_block_start" => {
                assert_eq!((open, data["index"].as_u64()), (None, Some(heard.blocks.len() as u64)), "{events}");
                open = data["index"].as_u64();
                heard.blocks.push(data["content_block"].clone());
            }
            "content_block_delta" => {
                assert_eq!(data["index"].as_u64(), open, "{events}");
                let (block, delta) = (heard.blocks.last_mut().unwrap(), &data["delta"]);
                let (kind, field) = match delta["type"].as_str().unwrap() {
                    "text_delta" => ("text", "text"),
                    "thinking_delta" => ("thinking", "thinking"),
                    "signature_delta" => ("thinking", "signature"),
                    "input_json_delta" => ("tool_use", "partial_json"),
                    other => panic!("{other}"),
                };
                assert_eq!(block["type"], kind, "{events}");
                if kind == "tool_use" {
                    input.push_str(delta[field].as_str().unwrap());
                } else {
                    let text = [block[field].as_str().unwrap(), delta[field].as_str().unwrap()].concat();
                    block[field] = text.into();
                }
            }
            "content_block_stop" => {
                assert_eq!(data["index"].as_u64(), open.take(), "{events}");
                if !input.is_empty() {
                    heard.blocks.last_mut().unwrap()["input"] =
                        serde_json::from_str(&std::mem::take(&mut input)).unwrap();
                }
            }
            "message_delta" => {
                assert_eq!(open, None);
                heard.stop_reason = data["delta"]["stop_reason"].clone();
                heard.usage = data["usage"].clone();
            }
            "message_stop" => is_over = true,
            other => panic!("{other}"),
        }
    }
    assert!(is_over, "{events}");
    heard
}

fn frame(delta: &Value) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": null });
    format!("data: {}\n\n", json!({ "id": "chatcmpl-1", "choices": [choice], "usage": null }))
}

fn call(index: u64, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    let mut call = json!({ "index": index, "function": { "arguments": arguments } });
    if let Some(id) = id {
        call["id"] = id.into();
    }
    if let Some(name) = name {
        call["function"]["name"] = name.into();
    }
    json!({ "tool_calls": [call] })
}

fn end(finish: &str) -> String {
    let choice = json!({ "index": 0, "delta": {}, "finish_reason": finish });
    let usage = json!({ "prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": { "cached_tokens": 2 } });
    let last = json!({ "id": "chatcmpl-1", "choices": [], "usage": usage });
    format!("data: {}\n\ndata: {last}\n\ndata: [DONE]\n\n", json!({ "choices": [choice] }))
}

/// Translates events one by one.
fn translated_stream(fields: &Value, chat: &str) -> Result<String, StreamError> {
    let (mut events, mut out) = (MessageEvents::new(context(fields)), BytesMut::new());
    for event in chat.split_inclusive("\n\n") {
        events.push(event.as_bytes(), &mut out)?;
    }
    Ok(String::from_utf8(out.to_vec()).unwrap())
}

const THINKING: &str = r#"{"thinking":{"type":"adaptive"}}"#;

fn stream(deltas: &[Value]) -> Heard {
    let chat = deltas.iter().map(frame).collect::<String>() + &end("stop");
    heard(&translated_stream(&serde_json::from_str(THINKING).unwrap(), &chat).unwrap())
}

#[test]
fn the_events_of_a_stream_are_anthropics() {
    let chat = [
        ": wait\n\n".to_owned(),
        frame(&json!({ "role": "assistant", "content": "" })),
        frame(&json!({ "reasoning_content": "Hm" })),
        frame(&json!({ "content": "a\"" })),
        ": wait\n\n".to_owned(),
        frame(&json!({ "content": "\u{e9}" })),
        frame(&call(0, Some("call_1"), Some("ls"), "")),
        frame(&call(0, None, None, "{\"a\":")),
        frame(&call(0, None, None, "1}")),
        end("tool_calls"),
    ];
    let events = translated_stream(&serde_json::from_str(THINKING).unwrap(), &chat.concat()).unwrap();
    let message = r#"{"id":"msg_0a1","type":"message","role":"assistant","model":"svc/qwen3-32b","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}"#;
    let start = |index: u64, block: &str| {
        ("content_block_start", format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#))
    };
    let delta = |index: u64, delta: &str| {
        ("content_block_delta", format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#))
    };
    let stop = |index: u64| ("content_block_stop", format!(r#"{{"type":"content_block_stop","index":{index}}}"#));
    let ping = || ("ping", r#"{"type":"ping"}"#.to_owned());
    let usage = r#"{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":4}"#;
    let expected = [
        ("message_start", format!(r#"{{"type":"message_start","message":{message}}}"#)),
        ping(),
        start(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        delta(0, r#"{"type":"thinking_delta","thinking":"Hm"}"#),
        delta(0, r#"{"type":"signature_delta","signature":"c3Zj"}"#),
        stop(0),
        start(1, r#"{"type":"text","text":""}"#),
        delta(1, r#"{"type":"text_delta","text":"a\""}"#),
        ping(),
        delta(1, "{\"type\":\"text_delta\",\"text\":\"\u{e9}\"}"),
        stop(1),
        start(2, r#"{"type":"tool_use","id":"call_1","name":"ls","input":{}}"#),
        delta(2, r#"{"type":"input_json_delta","partial_json":"{\"a\":"}"#),
        delta(2, r#"{"type":"input_json_delta","partial_json":"1}"}"#),
        stop(2),
        ("message_delta", format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"tool_use","stop_sequence":null}},"usage":{usage}}}"#)),
        ("message_stop", r#"{"type":"message_stop"}"#.to_owned()),
    ]
    .map(|(name, data)| format!("event: {name}\ndata: {data}\n\n"));
    assert_eq!(events, expected.concat());
}

#[test]
fn calls_that_interleave_are_told_one_after_the_other() {
    let tool =
        |id: &str, name: &str, input: Value| json!({ "type": "tool_use", "id": id, "name": name, "input": input });
    let both = [tool("a", "f", json!({ "x": [1, 2] })), tool("b", "g", json!({ "y": "}" }))];
    // Interleaved, one after the other, all in one frame, and each with the index 0.
    let in_turn = [
        call(0, Some("a"), Some("f"), "{\"x\":"),
        call(1, Some("b"), Some("g"), "{\"y\""),
        call(0, None, None, "[1,"),
        call(1, None, None, ":\"}"),
        call(0, None, None, "2]}"),
        call(1, None, None, "\"}"),
    ];
    assert_eq!(stream(&in_turn).blocks, both);
    let in_order = [0, 2, 4, 1, 3, 5].map(|at| in_turn[at].clone());
    assert_eq!(stream(&in_order).blocks, both);
    let whole = json!({ "tool_calls": [
        { "index": 0, "id": "a", "function": { "name": "f", "arguments": "{\"x\":[1,2]}" } },
        { "index": 1, "id": "b", "function": { "name": "g", "arguments": { "y": "}" } } },
    ] });
    assert_eq!(stream(&[whole]).blocks, both);
    let zero = [
        call(0, Some("a"), Some("f"), "{\"x\":[1,2]}"),
        call(0, Some("b"), Some("g"), ""),
        call(0, None, None, "{\"y\":\"}\"}"),
    ];
    assert_eq!(stream(&zero).blocks, both);
    // A call without arguments, followed by words.
    let heard = stream(&[call(0, Some("a"), Some("f"), ""), json!({ "content": "so" }), json!({ "content": "!" })]);
    assert_eq!(heard.blocks, [tool("a", "f", json!({})), json!({ "type": "text", "text": "so!" })]);
    assert_eq!(heard.stop_reason, "tool_use");
}

#[test]
fn a_call_that_ends_is_told_before_the_answer_ends() {
    let (mut events, mut out) = (MessageEvents::new(context(&json!({}))), BytesMut::new());
    for delta in [call(0, Some("a"), Some("f"), "{}"), call(1, Some("b"), Some("g"), "{\"x\"")] {
        events.push(frame(&delta).as_bytes(), &mut out).unwrap();
    }
    let text = String::from_utf8(out.to_vec()).unwrap();
    assert!(text.contains(r#"{"type":"content_block_stop","index":0}"#), "{text}");
    assert!(text.ends_with("\"partial_json\":\"{\\\"x\\\"\"}}\n\n"), "{text}");
}

#[test]
fn arguments_that_stay_blank_are_an_empty_object() {
    // The second call waits for the end of the first.
    for blank in ["", " ", "\n\t", "\u{2004}"] {
        let heard = stream(&[
            call(0, Some("a"), Some("f"), blank),
            call(1, Some("b"), Some("g"), blank),
            call(0, None, None, blank),
        ]);
        for block in &heard.blocks {
            assert_eq!(block["input"], json!({}), "{blank:?}");
        }
        assert_eq!(heard.blocks.len(), 2);
    }
    let heard = stream(&[
        call(0, Some("a"), Some("f"), " "),
        call(0, None, None, "{\"a\":"),
        call(0, None, None, " \"b  c\"}"),
    ]);
    assert_eq!(heard.blocks[0]["input"], json!({ "a": "b  c" }));
}

#[test]
fn what_waits_is_bounded() {
    let piece = "x".repeat(limits::HELD_BLOCK_BYTES / 8);
    let first = frame(&call(0, Some("a"), Some("f"), "{"));
    let rest = frame(&call(1, Some("b"), Some("g"), &piece)).repeat(9);
    assert_eq!(translated_stream(&json!({}), &(first.clone() + &rest)).err(), Some(StreamError::TooLarge));
    // A call of any length is passed on while nothing waits.
    let long = first + &frame(&call(0, None, None, &piece)).repeat(40) + &end("length");
    assert!(translated_stream(&json!({}), &long).unwrap().len() > 5 * limits::HELD_BLOCK_BYTES);
    let many: String = (0..=limits::HELD_BLOCKS as u64).map(|n| frame(&call(n, Some("a"), Some("f"), "{"))).collect();
    assert_eq!(translated_stream(&json!({}), &many).err(), Some(StreamError::TooLarge));
}

#[test]
fn a_failure_is_an_event() {
    let (mut events, mut out) = (MessageEvents::new(context(&json!({}))), BytesMut::new());
    events.push(frame(&json!({ "content": "x" })).as_bytes(), &mut out).unwrap();
    events.fail(gateway_request::error::ProviderError::Timeout.into(), &mut out);
    let text = String::from_utf8(out.to_vec()).unwrap();
    assert!(text.contains("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"timeout_error\""), "{text}");
    assert!(text.ends_with("\"request_id\":\"req_0a1\"}\n\n"), "{text}");
    assert_eq!(translated_stream(&json!({}), "data: {\"choices\":[{]}\n\n").err(), Some(StreamError::InvalidJson));
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Thought(String),
    /// The next piece of a call's arguments, with this many characters.
    Call(usize, usize),
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = prop_oneof![
        "\\PC{1,6}|\"|\\\\|\n".prop_map(Piece::Text),
        "\\PC{1,6}".prop_map(Piece::Thought),
        (0..3_usize, 1..9_usize).prop_map(|(call, len)| Piece::Call(call, len)),
    ];
    proptest::collection::vec(piece, 0..30)
}

proptest! {
    #[test]
    fn a_stream_says_what_the_whole_answer_says(pieces in pieces(), values in proptest::array::uniform3("\\PC{0,8}")) {
        let inputs: Vec<Value> = values.iter().map(|value| json!({ "v": value, "n": { "x": [1] } })).collect();
        let arguments: Vec<Vec<char>> = inputs.iter().map(|input| input.to_string().chars().collect()).collect();
        let (mut told, mut order, mut deltas) = ([0; 3], Vec::new(), Vec::new());
        let (mut text, mut thoughts) = (String::new(), String::new());
        // The rest of each call that has begun comes at the end.
        let rest = (0..3).map(|at| Piece::Call(at, usize::MAX));
        let begun: Vec<usize> = pieces.iter().filter_map(|piece| if let Piece::Call(at, _) = piece { Some(*at) } else { None }).collect();
        for piece in pieces.iter().cloned().chain(rest) {
            match piece {
                Piece::Text(piece) => {
                    text.push_str(&piece);
                    deltas.push(json!({ "content": piece }));
                }
                Piece::Thought(piece) => {
                    thoughts.push_str(&piece);
                    deltas.push(json!({ "reasoning_content": piece }));
                }
                Piece::Call(at, _) if !begun.contains(&at) => {}
                Piece::Call(at, len) => {
                    let end = arguments[at].len().min(told[at] + len.min(1000));
                    let piece: String = arguments[at][told[at]..end].iter().collect();
                    let is_new = !order.contains(&at);
                    if is_new {
                        order.push(at);
                    } else if piece.is_empty() {
                        continue;
                    }
                    told[at] = end;
                    let (id, name) = (format!("id{at}"), format!("f{at}"));
                    let (id, name) = (is_new.then_some(&*id), is_new.then_some(&*name));
                    deltas.push(call(at as u64, id, name, &piece));
                }
            }
        }
        let heard = stream(&deltas);
        let of = |kind: &str, field: &str| -> String {
            heard.blocks.iter().filter(|block| block["type"] == kind).map(|block| block[field].as_str().unwrap()).collect()
        };
        prop_assert_eq!((of("text", "text"), of("thinking", "thinking")), (text.clone(), thoughts.clone()));
        let calls: Vec<Value> = heard.blocks.iter().filter(|block| block["type"] == "tool_use").cloned().collect();

        let tool_calls: Vec<Value> = order.iter().map(|at| json!({ "id": format!("id{at}"), "function": {
            "name": format!("f{at}"), "arguments": inputs[*at].to_string() } })).collect();
        let message = json!({ "content": text, "reasoning_content": thoughts, "tool_calls": tool_calls });
        let usage = json!({ "prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": { "cached_tokens": 2 } });
        let chat = json!({ "choices": [{ "message": message, "finish_reason": "stop" }], "usage": usage });
        let answer = whole(&context(&serde_json::from_str(THINKING).unwrap()), chat.to_string().as_bytes()).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let blocks = answer["content"].as_array().unwrap();
        let words = |kind: &str| blocks.iter().find(|block| block["type"] == kind).map_or("", |block| block[kind].as_str().unwrap());
        prop_assert_eq!((words("text"), words("thinking")), (&*text, &*thoughts));
        let called: Vec<Value> = blocks.iter().filter(|block| block["type"] == "tool_use").cloned().collect();
        prop_assert_eq!(calls, called);
        prop_assert_eq!((&heard.stop_reason, &heard.usage), (&answer["stop_reason"], &answer["usage"]));
    }
}
