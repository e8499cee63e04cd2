//! How a provider's answer reaches the client: unchanged except for the model's name, and with its usage.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Gateway, frames_of, words};
use crate::{
    BACKGROUND,
    stubs::provider::{Act, Script, choice, completion, event, usual_events, zipped},
    world::eventually,
};

const RATE_HEADERS: [&str; 6] = [
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens",
];

fn pieces_of(events: &[String], end: &str) -> Vec<Vec<u8>> {
    events.iter().map(|event| format!("{event}{end}{end}").into_bytes()).collect()
}

#[tokio::test]
async fn a_completion_passes_unchanged_except_for_the_models_name() {
    let gateway = Gateway::start().await;
    let answer = gateway.complete(&json!({})).await.assert_hides_provider();
    for name in RATE_HEADERS {
        assert!(answer.find_header(name).is_some(), "{name} in {:?}", answer.headers);
    }
    assert!(answer.header("x-request-id").starts_with("req_"));
    let mut expected = completion("Hello!");
    expected["model"] = "svc/gpt-oss-20b".into();
    expected["usage"]["cost_microeuros"] = json!(6);
    assert_eq!(answer.ok(), expected);

    // Numbers keep their digits, fields their order, nothing is added but the cost.
    let odd = r#" {"z":1.0,"model" : "upstream-name","choices":[{"a":123456789012345678901234567890}],"b":{"model":"kept"},"usage":{"prompt_tokens":1,"completion_tokens":1} } "#;
    gateway.provider.next(Script::answer(200, &[("content-type", "application/json; charset=utf-8")], odd.as_bytes()));
    let answer = gateway.complete(&json!({})).await;
    let expected = odd.replace("\"upstream-name\"", "\"svc/gpt-oss-20b\"");
    let expected = expected.replace("\"completion_tokens\":1}", "\"completion_tokens\":1,\"cost_microeuros\":1}");
    answer.assert_body(200, expected);
}

#[tokio::test]
async fn a_completion_without_usage_gets_a_marked_estimate() {
    let gateway = Gateway::start().await;
    let mut without = completion("Hello!");
    without.as_object_mut().unwrap().remove("usage");
    gateway.provider.next(Script::json(&without));
    let usage = gateway.complete(&json!({})).await.ok()["usage"].take();
    assert_eq!(usage["estimated"], true);
    let count = |name: &str| usage[name].as_u64().unwrap();
    assert!(count("prompt_tokens") > 0 && count("completion_tokens") > 0);
    assert_eq!(count("total_tokens"), count("prompt_tokens") + count("completion_tokens"));
}

#[tokio::test]
async fn a_whole_answer_to_a_request_for_a_stream_becomes_one() {
    let gateway = Gateway::start().await;
    let mut called = completion("Hello!");
    called["choices"][0]["message"]["tool_calls"] =
        json!([{ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } }]);
    for media_type in ["application/json", "Application/JSON; charset=utf-8"] {
        let body = serde_json::to_vec_pretty(&called).unwrap();
        gateway.provider.next(Script::answer(200, &[("content-type", media_type)], &body));
        let frames = gateway.stream().await.frames();
        assert_eq!(frames.len(), 2);
        assert!(frames.iter().all(|frame| frame["model"] == "svc/gpt-oss-20b" && frame["id"] == "cmpl-0001"));
        assert_eq!(words(&frames), "Hello!");
        assert_eq!(frames[0]["object"], "chat.completion.chunk");
        assert_eq!(frames[0]["choices"][0]["finish_reason"], "stop");
        assert_eq!(frames[0]["choices"][0]["delta"]["tool_calls"][0]["index"], 0);
        assert_eq!((&frames[1]["choices"], &frames[1]["usage"]["total_tokens"]), (&json!([]), &json!(21)));
    }
    // It is metered as what it is.
    let exact = "SELECT count(*) FROM ai_usage WHERE prompt_tokens = 9 AND completion_tokens = 12 AND NOT estimated";
    eventually(BACKGROUND, "both are metered", async || gateway.world.sql_number(exact).await == 2).await;
}

#[tokio::test]
async fn a_stream_in_answer_to_a_request_for_json_becomes_one_completion() {
    let gateway = Gateway::start().await;
    let call = |arguments: &str| {
        let call =
            json!({ "index": 0, "id": "c", "type": "function", "function": { "name": "f", "arguments": arguments } });
        event(&json!([choice(&json!({ "tool_calls": [call] }), None)]), &Value::Null)
    };
    let mut events = usual_events(3);
    events.splice(4..4, [call("{\"a\""), call(":1}")]);
    let pieces = pieces_of(&events, "\n");
    let gzip = ("content-encoding", "gzip");
    for script in [
        Script::events(&events),
        Script::events(&events).cut(7),
        Script::encoded_stream(&[gzip], zipped(&pieces), true).cut(11),
        Script::stream(pieces_of(&events, "\r"), true),
        Script::stream(pieces.clone(), false).then(Act::Hang),
    ] {
        gateway.provider.next(script);
        let answer = gateway.complete(&json!({})).await.assert_hides_provider();
        assert_eq!(answer.header("content-type"), "application/json");
        let answer = answer.ok();
        assert_eq!((&answer["object"], &answer["model"]), (&json!("chat.completion"), &json!("svc/gpt-oss-20b")));
        assert_eq!((&answer["id"], &answer["usage"]["completion_tokens"]), (&json!("cmpl-0001"), &json!(3)));
        let choice = &answer["choices"][0];
        assert_eq!((&answer["choices"][1], &choice["finish_reason"]), (&Value::Null, &json!("stop")));
        let message = &choice["message"];
        assert_eq!((&message["role"], &message["content"]), (&json!("assistant"), &json!("wörd0 wörd1 wörd2 ")));
        assert_eq!(message["tool_calls"][0]["function"], json!({ "name": "f", "arguments": "{\"a\":1}" }));
    }
    let exact = "SELECT count(*) FROM ai_usage WHERE prompt_tokens = 9 AND completion_tokens = 3 AND NOT estimated";
    eventually(BACKGROUND, "all are metered", async || gateway.world.sql_number(exact).await == 5).await;

    // One that breaks off is no answer, and charged by what came; one that fails before its first word is not.
    let error = |events: usize| [&pieces[..events], &[b"data: {\"error\":1}\n\n".to_vec()]].concat();
    for script in [
        Script::stream(pieces[..3].to_vec(), false).then(Act::Close),
        Script::stream(error(3), true),
        Script::stream(error(0), true),
    ] {
        gateway.provider.next(script);
        gateway.complete(&json!({})).await.assert_openai_error(502, "upstream_error");
    }
    let seen = "SELECT count(*) FROM ai_usage WHERE completion_tokens BETWEEN 1 AND 50 AND estimated";
    eventually(BACKGROUND, "what came is metered", async || gateway.world.sql_number(seen).await == 2).await;
    assert_eq!(gateway.world.sql_number("SELECT count(*) FROM ai_usage").await, 7);
}

#[tokio::test]
async fn the_media_type_of_a_stream_has_no_case() {
    let gateway = Gateway::start().await;
    let body: String = usual_events(2).iter().flat_map(|event| [event, "\n\n"]).collect();
    let body = format!("\u{feff}{}", body.replace("[DONE]", "[DONE] "));
    for media_type in ["Text/Event-Stream", "TEXT/EVENT-STREAM;charset=UTF-8", "text/event-stream ; charset=utf-8"] {
        gateway.provider.next(Script::answer(200, &[("content-type", media_type)], body.as_bytes()));
        assert_eq!(gateway.stream().await.frames().last().unwrap()["usage"]["completion_tokens"], 2);
    }
}

#[tokio::test]
async fn a_stream_passes_unchanged_except_for_the_models_name() {
    let gateway = Gateway::start().await;
    let mut events = usual_events(3);
    events.insert(1, ": keep-alive".to_owned());
    gateway.provider.next(Script::events(&events));
    let answer = gateway.stream().await;
    assert_eq!(answer.header("cache-control"), "no-cache");
    for name in RATE_HEADERS {
        assert!(answer.find_header(name).is_some(), "{name} in {:?}", answer.headers);
    }
    let expected: String = events.iter().flat_map(|event| [event, "\n\n"]).collect();
    // Nothing is added but the cost, beside the usage.
    let expected = expected.replace("\"total_tokens\":12}", "\"total_tokens\":12,\"cost_microeuros\":3}");
    assert_eq!(answer.text(), expected.replace("upstream-name", "svc/gpt-oss-20b"));
    let frames = answer.frames();
    assert_eq!(words(&frames), "wörd0 wörd1 wörd2 ");
    let last = frames.last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]["completion_tokens"]), (&json!([]), &3.into()));
}

#[tokio::test]
async fn cuts_and_line_ends_of_a_stream_make_no_difference() {
    let gateway = Gateway::start().await;
    let events = usual_events(8);
    for end in ["\n", "\r\n", "\r"] {
        let script = Script::stream(pieces_of(&events, end), true);
        for size in [1, 7, 61] {
            gateway.provider.next(script.clone().cut(size));
            let frames = gateway.stream().await.frames();
            assert_eq!(words(&frames).matches("wörd").count(), 8, "{end:?} {size}");
            assert_eq!(frames.last().unwrap()["usage"]["total_tokens"], 17);
        }
        // In one piece.
        let all = pieces_of(&events, end).concat();
        gateway.provider.next(Script::stream([all], true));
        assert_eq!(gateway.stream().await.frames().len(), events.len() - 1);
    }
}

#[tokio::test]
async fn usage_is_in_the_last_frame_wherever_the_provider_reports_it() {
    let gateway = Gateway::start().await;
    let word = event(&json!([choice(&json!({ "content": "word" }), None)]), &Value::Null);
    let usage = |completion: u64| json!({ "prompt_tokens": 9, "completion_tokens": completion });
    let stop = |usage: &Value| event(&json!([choice(&json!({}), Some("stop"))]), usage);
    let growing = event(&json!([choice(&json!({ "content": "word" }), None)]), &usage(1));
    let done = "data: [DONE]".to_owned();
    for (events, estimated) in [
        (vec![word.clone(), stop(&usage(2)), done.clone()], false),
        (vec![growing.clone(), growing, stop(&usage(2)), done.clone()], false),
        (vec![word.clone(), event(&json!([]), &usage(2)), stop(&Value::Null), done.clone()], false),
        (vec![word.clone(), stop(&Value::Null), event(&json!([]), &usage(2))], false),
        (vec![word, stop(&Value::Null), done], true),
    ] {
        gateway.provider.next(Script::events(&events));
        let frames = gateway.stream().await.frames();
        let last = frames.last().unwrap();
        assert_eq!(last["usage"]["prompt_tokens"].as_u64().map(|tokens| tokens == 9), Some(!estimated), "{frames:?}");
        assert_eq!(last["usage"]["estimated"], if estimated { Value::Bool(true) } else { Value::Null });
        // The frame of the end has no words, and is estimated at nothing.
        assert!(last["usage"]["completion_tokens"].as_u64() >= Some(if estimated { 1 } else { 2 }), "{frames:?}");
        assert_eq!(last["model"], "svc/gpt-oss-20b");
    }
}

#[tokio::test]
async fn a_compressed_answer_is_decoded_within_bounds() {
    // Enough that the largest answer finds room.
    let gateway = Gateway::start_with(|world| world.set("EDGE__MEMORY", "8 GiB")).await;
    let gzip = ("content-encoding", "gzip");
    let body = completion("Hello!").to_string().into_bytes();
    let whole = zipped(&[body]).concat();
    gateway.provider.next(Script::answer(200, &[("content-type", "application/json"), gzip], &whole));
    let answer = gateway.complete(&json!({})).await;
    assert!(answer.find_header("content-encoding").is_none());
    assert_eq!(answer.ok()["choices"][0]["message"]["content"], "Hello!");

    let pieces = zipped(&pieces_of(&usual_events(4), "\n"));
    for script in [
        Script::encoded_stream(&[gzip], pieces.clone(), true),
        Script::encoded_stream(&[gzip], pieces.clone(), true).cut(3),
    ] {
        gateway.provider.next(script);
        assert_eq!(words(&gateway.stream().await.frames()).matches("wörd").count(), 4);
    }
    for encoding in ["br", "gzip, gzip"] {
        let script = Script::encoded_stream(&[("content-encoding", encoding)], pieces.clone(), true);
        gateway.provider.next(script);
        gateway.stream().await.assert_openai_error(502, "upstream_error");
    }
    let script = Script::answer(200, &[("content-type", "application/json"), gzip], b"no gzip at all, but long enough");
    gateway.provider.next(script);
    gateway.complete(&json!({})).await.assert_openai_error(502, "upstream_error");
    // 100 MB of spaces, compressed to 100 KB.
    let bomb = zipped(&[vec![b' '; 100_000_000]]).concat();
    gateway.provider.next(Script::answer(200, &[("content-type", "application/json"), gzip], &bomb));
    let error = gateway.complete(&json!({})).await.assert_openai_error(502, "upstream_error");
    assert!(error["message"].as_str().unwrap().contains("larger than 32 MB"), "{error}");
    // Nor is it charged: it is no completion.
    gateway.complete(&json!({})).await.assert_status(200);
    let (metered, estimated) = ("SELECT count(*) FROM ai_usage", "SELECT count(*) FROM ai_usage WHERE estimated");
    eventually(BACKGROUND, "the last one is metered", async || gateway.world.sql_number(metered).await >= 4).await;
    assert_eq!((gateway.world.sql_number(metered).await, gateway.world.sql_number(estimated).await), (4, 0));
}

#[tokio::test]
async fn a_stream_ends_with_its_last_frame_and_not_with_the_connection() {
    let gateway = Gateway::start().await;
    // The provider keeps the connection open after its last frame; the client does not wait for its end.
    let pieces = pieces_of(&usual_events(2), "\n");
    gateway.provider.next(Script::stream(pieces.clone(), false).then(Act::Hang));
    let began = Instant::now();
    assert_eq!(words(&gateway.stream().await.frames()).matches("wörd").count(), 2);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // What comes after the last frame is ignored.
    let mut more = pieces;
    more.push(b"data: {\"error\":1}\n\n".to_vec());
    gateway.provider.next(Script::stream(more, true));
    assert_eq!(gateway.stream().await.frames().last().unwrap()["usage"]["completion_tokens"], 2);
}

#[tokio::test]
async fn a_stream_is_under_way_no_longer_than_its_last_frame() {
    let gateway = Gateway::start_with(|world| world.set("LIMITS__GATEWAY_CONCURRENT", 1)).await;
    for _ in 0..3 {
        gateway.provider.next(Script::stream(pieces_of(&usual_events(2), "\n"), false).then(Act::Hang));
        gateway.stream().await.frames();
    }
}

#[tokio::test]
async fn connections_to_a_provider_are_reused() {
    let gateway = Gateway::start().await;
    for _ in 0..5 {
        gateway.stream().await.frames();
        gateway.complete(&json!({})).await.ok();
    }
    let connections: Vec<_> = gateway.provider.asked().iter().map(|asked| asked.connection).collect();
    assert!(connections.iter().max() <= Some(&1), "{connections:?}");
}

#[tokio::test]
async fn each_event_arrives_before_the_next_is_said() {
    let gateway = Gateway::start().await;
    // The provider says an event when the client has the one before.
    gateway.provider.next(Script::usual_stream(6).step_by_step());
    let url = gateway.world.edge().address(&gateway.url("/v1/chat/completions"));
    let request = gateway.world.edge().browser.post(url).bearer_auth(&gateway.key);
    let mut text = String::new();
    gateway.provider.go_on();
    let hear = async {
        let mut answer = request.json(&super::request(&json!({ "stream": true }))).send().await.unwrap();
        while let Some(chunk) = answer.chunk().await.unwrap() {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
            if text.ends_with("\n\n") {
                gateway.provider.go_on();
            }
        }
    };
    tokio::time::timeout(BACKGROUND, hear).await.expect("an event was kept back until the next came");
    assert_eq!(frames_of(&text).len(), 10);
}
