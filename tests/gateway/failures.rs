//! Failures of providers: the error that the client gets for each, without anything of the provider's.

use std::time::Duration;

use super::{Gateway, deaf_port, frames_of, served_by};
use crate::{
    BACKGROUND,
    metrics::Page,
    stubs::provider::{Act, SECRET, Script, completion, usual_events},
    world::{eventually, ports},
};
use serde_json::{Value, json};

#[tokio::test]
async fn a_providers_status_becomes_an_error_of_the_gateway() {
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__QUEUE_SECONDS", 0)).await;
    for (status, ours, code) in [
        (400, 400, "invalid_value"),
        (413, 400, "invalid_value"),
        (422, 400, "invalid_value"),
        (401, 502, "upstream_error"),
        (402, 502, "upstream_error"),
        (403, 502, "upstream_error"),
        (404, 502, "upstream_error"),
        (418, 502, "upstream_error"),
        (302, 502, "upstream_error"),
        (201, 502, "upstream_error"),
        (429, 503, "upstream_overloaded"),
        (500, 502, "upstream_error"),
        (503, 502, "upstream_error"),
        (529, 502, "upstream_error"),
        (504, 504, "upstream_timeout"),
        (408, 504, "upstream_timeout"),
    ] {
        for stream in [false, true] {
            let asked = gateway.provider.asked().len();
            gateway.provider.next(Script::error(status));
            let answer = gateway.complete(&json!({ "stream": stream })).await;
            assert!(answer.find_header("x-ratelimit-limit-requests").is_some(), "{status}");
            let error = answer.assert_openai_error(ours, code);
            assert!(!error["message"].as_str().unwrap().contains("context"), "{error}");
            // Asked once: it had answered.
            assert_eq!(gateway.provider.asked().len(), asked + 1, "{status}");
        }
    }
}

#[tokio::test]
async fn a_providers_retry_after_is_passed_on_within_bounds() {
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__QUEUE_SECONDS", 0)).await;
    // A limit is the operator's to bear: the gateway says when to come back, even where the provider does not.
    for (status, ours, code, own) in [(429, 503, "upstream_overloaded", Some("5")), (503, 502, "upstream_error", None)]
    {
        for (said, passed) in [("7", Some("7")), ("86400", Some("60")), ("0", Some("1")), ("soon", own)] {
            for stream in [false, true] {
                gateway.provider.next(Script::answer(status, &[("retry-after", said)], SECRET.as_bytes()));
                let answer = gateway.complete(&json!({ "stream": stream })).await;
                assert_eq!(answer.find_header("retry-after"), passed, "{said}");
                let millis = passed.map(|seconds| format!("{seconds}000"));
                assert_eq!(answer.find_header("retry-after-ms"), millis.as_deref(), "{said}");
                answer.assert_openai_error(ours, code);
            }
        }
    }
}

#[tokio::test]
async fn an_invalid_answer_is_an_upstream_error() {
    let gateway = Gateway::start().await;
    let json_type = ("content-type", "application/json");
    let mut no_choices = completion("x");
    no_choices["choices"] = SECRET.into();
    for script in [
        Script::answer(200, &[json_type], b""),
        Script::answer(200, &[json_type], SECRET.as_bytes()),
        Script::answer(200, &[json_type], b"[]"),
        Script::answer(200, &[json_type], b"{\"model\":\"upstream-name\",\"choices\":[{]}"),
        Script::answer(200, &[("content-type", "text/html")], format!("<html>{SECRET}").as_bytes()),
        Script::json(&json!({ "error": { "message": SECRET } })),
        Script::json(&no_choices),
        Script(vec![
            Act::Send(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n{\"choices\":["
                    .to_vec(),
            ),
            Act::Close,
        ]),
        Script(vec![Act::Send(b"no HTTP at all\r\n\r\n".to_vec()), Act::Close]),
        Script(vec![
            Act::Send(format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(200_000)).into_bytes()),
            Act::Close,
        ]),
    ] {
        gateway.provider.next(script.clone());
        let answer = gateway.complete(&json!({})).await;
        assert_eq!(answer.status.as_u16(), 502, "{script:?}");
        answer.assert_openai_error(502, "upstream_error");
    }
    // Nor does anything but a completion become a stream.
    for script in [
        Script::stream(vec![format!("{{\"object\":\"error\",\"message\":\"{SECRET}\"}}").into_bytes()], true),
        Script::stream(Vec::new(), true),
        Script::json(&json!({ "error": { "message": SECRET } })),
        Script::json(&no_choices),
        Script::answer(200, &[("content-type", "text/html")], format!("<html>{SECRET}").as_bytes()),
    ] {
        gateway.provider.next(script);
        gateway.stream().await.assert_openai_error(502, "upstream_error");
    }
    // The gateway still works.
    gateway.complete(&json!({})).await.ok();
}

#[tokio::test]
async fn a_whole_answer_that_breaks_off_is_charged_by_what_came() {
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__IDLE_SECONDS", 1)).await;
    let whole = completion(&"word ".repeat(200)).to_string().into_bytes();
    let cut = &whole[..whole.len() / 2];
    let usage_first = br#"{"usage":{"prompt_tokens":9,"completion_tokens":12},"choices":[{"message":{"cont"#;
    let head = |fields: &str| format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{fields}\r\n").into_bytes();
    let begun = |body: &[u8]| Script(vec![Act::Send([&head("content-length: 9000\r\n"), body].concat())]);
    let endless = |body: &[u8]| Script(vec![Act::Send([&head("connection: close\r\n"), body].concat())]);
    // With how many rows of usage there are afterwards, and how many of them are exact.
    for (script, status, rows, exact) in [
        (begun(cut).then(Act::Close), 502, 1, 0),
        (begun(cut).then(Act::Hang), 504, 2, 0),
        (endless(cut).then(Act::Close), 502, 3, 0),
        (begun(usage_first).then(Act::Close), 502, 4, 1),
        // All of it, and then no end.
        (begun(&whole).then(Act::Close), 502, 5, 2),
        // Nothing has come, or an error, or what is whole and no completion.
        (begun(b" \n").then(Act::Close), 502, 5, 2),
        (begun(br#"{"error":{"message":"#).then(Act::Close), 502, 5, 2),
        (endless(br#"{"choices":7}"#).then(Act::Close), 502, 5, 2),
    ] {
        let what = format!("{script:?}");
        gateway.provider.next(script);
        let code = if status == 504 { "upstream_timeout" } else { "upstream_error" };
        gateway.complete(&json!({})).await.assert_openai_error(status, code);
        let counted =
            async |which: &str| gateway.world.sql_number(&format!("SELECT count(*) FROM ai_usage WHERE {which}")).await;
        eventually(BACKGROUND, &what, async || counted("true").await == rows).await;
        assert_eq!(counted("NOT estimated AND prompt_tokens = 9 AND completion_tokens = 12").await, exact, "{what}");
        // Half of the words, by their bytes, and not all that could have been used.
        assert_eq!(counted("estimated AND completion_tokens NOT BETWEEN 100 AND 250").await, 0, "{what}");
    }
    gateway.complete(&json!({})).await.ok();
    let released = "SELECT count(*) FROM ai_usage";
    eventually(BACKGROUND, "the others are released", async || gateway.world.sql_number(released).await == 6).await;
}

/// A stream that fails: what came before, and the error. The connection does not end as a whole answer does.
async fn read_failed_stream(gateway: &Gateway, script: Script) -> (Vec<String>, Value) {
    let sent = script.0.iter().take_while(|act| !matches!(act, Act::Hold)).count();
    let mut is_held = sent < script.0.len();
    gateway.provider.next(script);
    let url = gateway.world.edge().address(&gateway.url("/v1/chat/completions"));
    let request = gateway.world.edge().old_browser.post(url).bearer_auth(&gateway.key);
    let mut answer = request.json(&super::request(&json!({ "stream": true }))).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut text = Vec::new();
    let broken = loop {
        match answer.chunk().await {
            Ok(Some(chunk)) => {
                text.extend_from_slice(&chunk);
                // The head is sent first, and then event by event.
                if is_held && text.windows(2).filter(|two| two == b"\n\n").count() == sent - 1 {
                    gateway.provider.go_on();
                    is_held = false;
                }
            }
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    let text = String::from_utf8(text).unwrap();
    assert!(broken, "a clean end: {text}");
    assert!(!text.contains(SECRET) && !text.contains("upstream-name") && !text.contains("[DONE]"), "{text}");
    let mut events = frames_of(&text);
    let error = events.pop().unwrap_or_else(|| panic!("no error frame: {text}"));
    let mut error: Value = serde_json::from_str(&error).unwrap_or_else(|e| panic!("{e}: {error}"));
    crate::world::answer::assert_keys(&error, "error");
    crate::world::answer::assert_keys(&error["error"], "message type param code");
    (events, error["error"].take())
}

#[tokio::test]
async fn a_failed_stream_ends_with_an_error_frame_and_an_aborted_connection() {
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__IDLE_SECONDS", 1)).await;
    let pieces = |count: usize| -> Vec<Vec<u8>> {
        usual_events(4).into_iter().take(count).map(|event| format!("{event}\n\n").into_bytes()).collect()
    };
    let with = |count: usize, more: &str| [pieces(count), vec![more.as_bytes().to_vec()]].concat();
    let said = format!("data: {{\"error\":{{\"message\":\"{SECRET}\",\"code\":500}}}}\n\ndata: [DONE]\n\n");
    let bare = format!("{{\"object\":\"error\",\"message\":\"{SECRET}\"}}");
    for (script, code, words) in [
        (Script::stream(with(3, &said), true), "upstream_error", 3),
        (Script::stream(with(2, &format!("event: error\ndata: {SECRET}\n\n")), true), "upstream_error", 2),
        (Script::stream(with(2, &format!("data: {SECRET}\n\n")), true), "upstream_error", 2),
        // Bare words, and a bare error: before anything else, between events, and at the end without an empty line.
        (Script::stream(with(3, &format!("{bare}\n\n")), true), "upstream_error", 3),
        (Script::stream(with(3, &format!(": hm\r\n{SECRET}")), true), "upstream_error", 3),
        (Script::stream(with(3, &format!("Data: {SECRET}\n\n")), true), "upstream_error", 3),
        // A clean end of the connection without the last frame: before the finish reason, and after it.
        (Script::stream(pieces(3), true), "upstream_error", 3),
        (Script::stream(pieces(6), true), "upstream_error", 6),
        (Script::stream(pieces(3), false).then(Act::Close), "upstream_error", 3),
        (Script::stream(with(3, "data: {\"half"), false).then(Act::Close), "upstream_error", 3),
        // A reset takes with it what was not read yet, so it comes when the words have arrived.
        (Script::stream(pieces(3), false).then(Act::Hold).then(Act::Reset), "upstream_error", 3),
        (Script::stream(pieces(3), false).then(Act::Hang), "upstream_timeout", 3),
        (
            Script::stream(with(3, &format!("data: {}", "x".repeat(2_000_000))), false).then(Act::Hang),
            "upstream_error",
            3,
        ),
    ] {
        let what = format!("{:.300}", format!("{script:?}"));
        let (events, error) = read_failed_stream(&gateway, script).await;
        assert_eq!((events.len(), &error["code"]), (words, &code.into()), "{what}");
    }
    gateway.stream().await.frames();
    // What came before the failure is metered: thirteen streams with some content, and the last one.
    let heard = "SELECT count(*) FROM ai_usage WHERE completion_tokens BETWEEN 1 AND 50 AND prompt_tokens > 0";
    eventually(BACKGROUND, "all is metered", async || gateway.world.sql_number(heard).await == 14).await;
    assert!(gateway.world.sql_number("SELECT count(*) FROM ai_usage").await <= 15);
}

#[tokio::test]
async fn a_silent_provider_times_out() {
    let gateway =
        Gateway::start_with(|world| world.set("GATEWAY__FIRST_BYTE_SECONDS", 1).set("GATEWAY__IDLE_SECONDS", 1)).await;
    for stream in [false, true] {
        gateway.provider.next(Script(vec![Act::Hang]));
        gateway.complete(&json!({ "stream": stream })).await.assert_openai_error(504, "upstream_timeout");
    }
    let half = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{".to_vec();
    gateway.provider.next(Script(vec![Act::Send(half), Act::Hang]));
    gateway.complete(&json!({})).await.assert_openai_error(504, "upstream_timeout");
    assert_eq!(gateway.provider.asked().len(), 3, "a slow provider is not asked twice");
    // An answer may take longer in all, if no pause is as long.
    gateway.provider.next(Script::usual_stream(6).slowly(Duration::from_millis(300)));
    gateway.stream().await.frames();
}

#[tokio::test]
async fn a_provider_has_its_time_to_begin_though_it_sends_the_head_at_once() {
    let gateway =
        Gateway::start_with(|world| world.set("GATEWAY__FIRST_BYTE_SECONDS", 30).set("GATEWAY__IDLE_SECONDS", 1)).await;
    let pause = Duration::from_secs(2);
    let slow = |script: Script, acts: usize| {
        let (head, rest) = script.0.split_at(acts);
        Script([head, &[Act::Wait(pause)], rest].concat())
    };
    // After the head, and after an event in which the model says nothing: longer than a pause may be.
    for acts in [1, 2] {
        for stream in [false, true] {
            gateway.provider.next(slow(Script::usual_stream(2), acts));
            gateway.complete(&json!({ "stream": stream })).await.assert_status(200);
        }
    }
    let whole = Script::completion();
    let Act::Send(bytes) = &whole.0[0] else { panic!("{whole:?}") };
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let whole = Script([&bytes[..head], &bytes[head..]].map(|part| Act::Send(part.to_vec())).to_vec());
    gateway.provider.next(slow(whole, 1));
    gateway.complete(&json!({})).await.ok();
    // After the first word a pause is one.
    let (events, error) = read_failed_stream(&gateway, slow(Script::usual_stream(2), 3)).await;
    assert_eq!((events.len(), &error["code"]), (2, &"upstream_timeout".into()));
}

#[tokio::test]
async fn a_request_is_sent_again_only_when_that_is_safe() {
    let gateway = Gateway::start().await;
    // Not when a kept connection ends after the request has arrived: the provider may have begun, and bills that.
    for end in [Act::Close, Act::Reset] {
        gateway.complete(&json!({})).await.ok();
        let asked = gateway.provider.asked().len();
        gateway.provider.next(Script(vec![Act::Hold, end]));
        let complete = gateway.complete(&json!({})).into_future();
        let end = async {
            eventually(BACKGROUND, "the request arrives", async || gateway.provider.asked().len() > asked).await;
            gateway.provider.go_on();
        };
        let (answer, ()) = tokio::join!(complete, end);
        answer.assert_openai_error(502, "upstream_error");
        assert_eq!(gateway.provider.asked().len(), asked + 1);
    }
    // Nor on a new connection.
    let asked = gateway.provider.asked().len();
    gateway.provider.next(Script(vec![Act::Close]));
    gateway.complete(&json!({})).await.assert_openai_error(502, "upstream_error");
    assert_eq!(gateway.provider.asked().len(), asked + 1);
    // Not after the answer has begun.
    gateway.complete(&json!({})).await.ok();
    let asked = gateway.provider.asked().len();
    let begun = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{".to_vec();
    gateway.provider.next(Script(vec![Act::Send(begun), Act::Close]));
    gateway.complete(&json!({})).await.assert_openai_error(502, "upstream_error");
    assert_eq!(gateway.provider.asked().len(), asked + 1);
    // A kept connection that is already closed is not used.
    gateway.provider.next(Script::completion().then(Act::Close));
    gateway.complete(&json!({})).await.ok();
    gateway.complete(&json!({})).await.ok();
}

#[tokio::test]
async fn frames_that_are_no_part_of_a_completion_are_counted_and_logged_without_their_words() {
    let metrics = ports::free();
    let listen = format!("127.0.0.1:{metrics}");
    let gateway = Gateway::start_with(|world| world.set("EDGE__METRICS_LISTEN", listen)).await;
    let mut events = usual_events(3);
    for at in [1, 2] {
        events.insert(at, format!(r#"data: {{"detail":"{SECRET}"}}"#));
    }
    for _ in 0..2 {
        gateway.provider.next(Script::events(&events));
    }
    // The second is asked for as a whole.
    assert_eq!(gateway.stream().await.frames().len(), usual_events(3).len() - 1);
    gateway.complete(&json!({})).await.ok();
    let log = gateway.world.edge().process.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("frames of a stream")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines.iter().all(|line| line.contains("req_") && !line.contains(SECRET)), "{lines:?}");
    let counted = Page::of(metrics).await.sum("svc_gateway_frames_left_out_total");
    assert!((counted - 4.0).abs() < f64::EPSILON, "{counted}");
}

#[tokio::test]
async fn an_unreachable_provider_is_an_upstream_error() {
    let world = served_by(&format!("http://127.0.0.1:{}", ports::free())).start().await;
    let key = super::create_key(&world.user("ada").await).await;
    let url = format!("https://ai.svc.localhost:{}/v1/chat/completions", world.public_port());
    let answer = world.edge().post(&url).bearer(&key).json(&super::request(&json!({}))).await;
    answer.assert_openai_error(502, "upstream_error");
}

#[tokio::test]
async fn connecting_times_out_once_and_is_not_retried() {
    let (port, _queued) = deaf_port().await;
    let world = served_by(&format!("http://{}", port.local_addr().unwrap())).start().await;
    let key = super::create_key(&world.user("ada").await).await;
    let url = format!("https://ai.svc.localhost:{}/v1/chat/completions", world.public_port());
    let answer = world.edge().post(&url).bearer(&key).json(&super::request(&json!({}))).await;
    answer.assert_openai_error(504, "upstream_timeout");
    // There was no second attempt.
    assert_eq!(world.edge().process.log().matches("a completion failed").count(), 1);
    assert_eq!(world.sql_number("SELECT count(*) FROM ai_usage").await, 0);
}
