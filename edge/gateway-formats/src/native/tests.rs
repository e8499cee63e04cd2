use bytes::BytesMut;
use config::{
    Gateway,
    gateway::FallbackEntry,
    models::{ModelCatalog, ModelRoute},
};
use domain::usage::Ending;
use gateway_answer::{
    json_answer::{AnswerError, RewrittenAnswer},
    sse::{StreamError, StreamProgress},
};
use gateway_request::{asks::RequestLimits, error::ApiError, models::ServedModels};
use openai::usage_report::ExpectedUsage;

use super::*;

const EXPECTED: ExpectedUsage = ExpectedUsage { prompt: 7, completion: 90, choices: 1, images: 0 };

/// Returns models, one with every endpoint at its provider, and one with them only at its second provider.
fn models() -> ServedModels {
    let mut config = Gateway::default();
    let all = vec![ModelRoute::Chat, ModelRoute::Responses, ModelRoute::Messages];
    let native = config.models.get_mut("svc/gpt-oss-20b").unwrap();
    native.routes = all.clone();
    let fallback = FallbackEntry { provider: "scaleway".into(), upstream: "second".into(), routes: all };
    native.fallback = Some(fallback);
    let models = ModelCatalog::from_config(&config, |_| Some("key".to_owned())).unwrap();
    ServedModels::new(&models, &config, None).unwrap()
}

fn read(api: CompletionApi, body: &str) -> Result<FormattedRequest, ApiError> {
    api.read(Bytes::copy_from_slice(body.as_bytes()).into(), &models(), &RequestLimits::default())
}

fn sent(api: CompletionApi, body: &str) -> String {
    let request = read(api, body).unwrap_or_else(|error| panic!("{body}: {error:?}"));
    assert!(matches!(request.format, ClientFormat::Native(_)), "{body} is translated");
    String::from_utf8(request.body.joined().to_vec()).unwrap()
}

fn answer(api: CompletionApi) -> Arc<NativeAnswer> {
    Arc::new(NativeAnswer::new(api, "\"asked-for\"", "req_0a1"))
}

#[test]
fn a_response_passes_but_for_what_is_governed() {
    for (body, expected) in [
        (
            r#"{"model":"svc/gpt-oss-20b","input":"Hi?"}"#,
            r#"{"model":"gpt-oss-20b","input":"Hi?","max_output_tokens":4096,"store":false}"#,
        ),
        (
            r#"{ "stream" : true, "input":[ {"type":"message","role":"user","content":"H\u0069"},{"type":"reasoning","summary":[],"encrypted_content":"x"} ],"model":"svc/gpt-oss-20b","store":true,"max_output_tokens" : 100,"include":["reasoning.encrypted_content"],"service_tier":"priority","unheard_of":{}}"#,
            r#"{"stream" : true,"input":[ {"type":"message","role":"user","content":"H\u0069"},{"type":"reasoning","summary":[],"encrypted_content":"x"} ],"model":"gpt-oss-20b","max_output_tokens" : 100,"include":["reasoning.encrypted_content"],"store":false}"#,
        ),
        // Tools that the provider runs are left out, and so is their choice.
        (
            r#"{"model":"svc/gpt-oss-20b","input":"x","max_output_tokens":1,"tool_choice":{"type":"web_search"},"tools":[{"type":"web_search"}, {"type":"function","name":"f"} ,{"type":"custom","name":"c"}]}"#,
            r#"{"model":"gpt-oss-20b","input":"x","max_output_tokens":1,"tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"}],"store":false}"#,
        ),
        (
            r#"{"model":"svc/gpt-oss-20b","input":"x","max_output_tokens":1,"tool_choice":"auto","tools":[{"type":"mcp"}]}"#,
            r#"{"model":"gpt-oss-20b","input":"x","max_output_tokens":1,"store":false}"#,
        ),
        (
            r#"{"model":"svc/gpt-oss-20b","input":"a\ud83d","max_output_tokens":1,"tools":[ {"type":"function","name":"f"} ]}"#,
            r#"{"model":"gpt-oss-20b","input":"a\ufffd","max_output_tokens":1,"tools":[ {"type":"function","name":"f"} ],"store":false}"#,
        ),
    ] {
        assert_eq!(sent(CompletionApi::Responses, body), expected);
    }
    for body in [
        r#"{"model":"svc/gpt-oss-20b","input":"x","previous_response_id":"resp_1"}"#,
        r#"{"model":"svc/gpt-oss-20b","input":"x","max_output_tokens":4097}"#,
    ] {
        assert!(read(CompletionApi::Responses, body).is_err(), "{body}");
    }
}

#[test]
fn a_message_passes_but_for_what_is_governed() {
    let body = r#"{"max_tokens":100,"model":"svc/gpt-oss-20b","metadata":{"user_id":"u"},"service_tier":"auto","system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"Hi?"},{"role":"assistant","content":[{"type":"thinking","thinking":"so","signature":"x/+="},{"type":"text","text":"Hi."}]},{"role":"user","content":"And?"}],"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"bash_20250124","name":"bash"},{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"auto"}}"#;
    let expected = r#"{"max_tokens":100,"model":"gpt-oss-20b","system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"Hi?"},{"role":"assistant","content":[{"type":"thinking","thinking":"so","signature":"x/+="},{"type":"text","text":"Hi."}]},{"role":"user","content":"And?"}],"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"bash_20250124","name":"bash"}],"tool_choice":{"type":"auto"}}"#;
    assert_eq!(sent(CompletionApi::Messages, body), expected);
    let request = read(CompletionApi::Messages, body).unwrap();
    assert!(request.max_usage.prompt >= expected.len() as u64 && request.max_usage.completion == 100);
    let mut headers = HeaderMap::new();
    request.format.add_headers(&mut headers);
    assert_eq!(headers[WARNING], "left out: web_search_20250305");
}

#[test]
fn the_second_provider_gets_the_same_under_its_own_name() {
    let request =
        read(CompletionApi::Responses, r#"{"model":"svc/gpt-oss-20b","input":"Hi?","max_output_tokens":9}"#).unwrap();
    let fallback = request.fallback.unwrap();
    assert!(fallback.is_native());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let written = runtime.block_on(fallback.write()).unwrap();
    assert_eq!(written.joined(), r#"{"model":"second","input":"Hi?","max_output_tokens":9,"store":false}"#);
}

#[test]
fn what_brings_tools_along_and_other_models_are_translated() {
    for (api, body) in [
        (CompletionApi::Responses, r#"{"model":"svc/qwen3-32b","input":"x"}"#),
        (
            CompletionApi::Responses,
            r#"{"model":"svc/gpt-oss-20b","input":[{"type":"message","role":"user","content":"x"},{"type":"additional\u005ftools","tools":[{"type":"web_search"}]}]}"#,
        ),
        (
            CompletionApi::Messages,
            r#"{"model":"svc/gpt-oss-20b","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_addition","tool":{"definition":{"type":"web_search_20250305","name":"web_search"}}}]}]}"#,
        ),
    ] {
        let request = read(api, body).unwrap_or_else(|error| panic!("{body}: {error:?}"));
        assert!(!matches!(request.format, ClientFormat::Native(_)), "{body}");
    }
}

#[test]
fn usage_is_read_in_each_formats_own_terms() {
    let read = |api, reports: &[&str]| {
        let mut usage = NativeUsage::default();
        for report in reports {
            usage.add(report.as_bytes());
        }
        usage.read(api).map(|usage| (usage.prompt, usage.completion))
    };
    let response = r#"{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":12,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":21}"#;
    assert_eq!(read(CompletionApi::Responses, &[response]), Some((9, 12)));
    let start = r#"{"input_tokens":3,"cache_creation_input_tokens":2,"cache_read_input_tokens":4,"output_tokens":1}"#;
    assert_eq!(read(CompletionApi::Messages, &[start, r#"{"output_tokens":12}"#]), Some((9, 12)));
    assert_eq!(read(CompletionApi::Messages, &[start, r#"{"output_tokens":0}"#, "null", "7"]), Some((9, 1)));
    assert_eq!(read(CompletionApi::Messages, &[r#"{"output_tokens":12}"#]), None);
    assert_eq!(read(CompletionApi::Responses, &[r#"{"input_tokens":9,"output_tokens":99999999999}"#]), None);
}

#[test]
fn an_answer_that_breaks_off_is_paid_by_what_came_of_it() {
    let unread = EXPECTED.estimate(5);
    let paid = |api, read: &str| {
        let usage = answer(api).partial_usage(read.as_bytes(), &EXPECTED, &unread);
        usage.map(|usage| (usage.prompt, usage.completion, usage.is_estimated))
    };
    let words = r#"{"id":"msg_1","type":"message","content":[{"type":"text","text":"#;
    assert_eq!(paid(CompletionApi::Messages, &format!("{words}\"1234")), Some((7, 5, true)));
    assert_eq!(paid(CompletionApi::Messages, &format!("{words}\"{}", "1234".repeat(10))), Some((7, 10, true)));
    let reported = r#"{"usage":{"input_tokens":9,"output_tokens":3},"output":[{"text":"1234"#;
    assert_eq!(paid(CompletionApi::Responses, reported), Some((9, 3, false)));
    // Text that is not the beginning of an answer in this format costs nothing, whole or not.
    for read in [
        "",
        "<html>",
        "{}",
        r#"{"choices":[{"message":{"content":"1234"#,
        r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#,
        r#"{"error":{"message":"1234"#,
        r#"{"type":"error","error":null,"content":[{"text":"1234"#,
        r#"{"content":[{"text":"1234"}]}"#,
    ] {
        assert_eq!(paid(CompletionApi::Messages, read), None, "{read}");
    }
}

#[test]
fn a_whole_answer_passes_under_the_name_that_was_asked_for() {
    let body = "{\"id\":\"resp_1\", \"error\":null,\"model\" : \"upstream\",\"incomplete_details\":{\"reason\":\"max_output_tokens\"},\"output\":[{\"type\":\"message\"}],\n\"usage\":{\"input_tokens\":9,\"output_tokens\":12}}";
    let RewrittenAnswer { body: passed, usage, ending } =
        answer(CompletionApi::Responses).rewrite(body.as_bytes(), &EXPECTED).unwrap();
    assert_eq!(passed, body.replace("\"upstream\"", "\"asked-for\""));
    assert_eq!((usage.prompt, usage.completion, usage.is_estimated, ending), (9, 12, false, Ending::Length));
    let body = r#"{"type":"message","model":"upstream","content":[{"type":"text","text":"12345678"}]}"#;
    let RewrittenAnswer { usage, .. } = answer(CompletionApi::Messages).rewrite(body.as_bytes(), &EXPECTED).unwrap();
    assert_eq!((usage.prompt, usage.completion, usage.is_estimated), (7, 2, true));
    // Words without tokens: the report does not count them.
    let body = r#"{"content":[{"type":"text","text":"12345678"}],"usage":{"input_tokens":3,"output_tokens":0}}"#;
    let RewrittenAnswer { usage, .. } = answer(CompletionApi::Messages).rewrite(body.as_bytes(), &EXPECTED).unwrap();
    assert_eq!((usage.prompt, usage.completion, usage.is_estimated), (3, 2, true));
    for body in [
        "x",
        "[]",
        "{}",
        r#"{"output":7}"#,
        r#"{"output":[],"error":{"message":"words"}}"#,
        r#"{"output":[],"status":"failed"}"#,
        r#"{"type":"error","content":[]}"#,
    ] {
        for api in [CompletionApi::Responses, CompletionApi::Messages] {
            let refused = answer(api).rewrite(body.as_bytes(), &EXPECTED).unwrap_err();
            assert_eq!(refused, AnswerError::NoCompletion, "{body}");
        }
    }
}

const RESPONSE_STREAM: &str = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"model\":\"upstream\",\"usage\":null}}\n\n\
    : hm\n\nevent: response.output_text.delta\r\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"delta\":\"12345678\"}\r\n\r\n\
    data: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":12},\"model\":\"upstream\"}}\n\n";

const MESSAGE_STREAM: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"upstream\",\"usage\":{\"input_tokens\":5,\"cache_read_input_tokens\":4,\"output_tokens\":1}}}\n\n\
    event: ping\ndata: {\"type\":\"ping\"}\n\n\
    event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"12345678\"}}\n\n\
    event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":12}}\n\n\
    event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

#[test]
fn a_stream_passes_byte_by_byte_wherever_it_is_cut() {
    for (api, stream) in [(CompletionApi::Responses, RESPONSE_STREAM), (CompletionApi::Messages, MESSAGE_STREAM)] {
        for size in [1, 2, 7, 64, stream.len()] {
            let mut frames = NativeFrames::new(answer(api), EXPECTED);
            let (mut out, mut progress) = (BytesMut::new(), StreamProgress::Ongoing);
            for piece in stream.as_bytes().chunks(size) {
                assert_eq!(progress, StreamProgress::Ongoing, "its end comes last");
                progress = frames.push(piece, &mut out).unwrap();
            }
            assert_eq!(progress, StreamProgress::Complete);
            assert_eq!(out, stream.replace("\"upstream\"", "\"asked-for\""));
            let usage = frames.usage_so_far();
            assert_eq!((usage.prompt, usage.completion, usage.is_estimated), (9, 12, false));
        }
    }
}

#[test]
fn a_stream_that_fails_says_so_in_its_own_format() {
    for (api, stream, rest, expected) in [
        (
            CompletionApi::Responses,
            RESPONSE_STREAM,
            "event: error\ndata: {\"type\":\"error\",\"message\":\"words\"}\n\n",
            "response.failed",
        ),
        (
            CompletionApi::Responses,
            RESPONSE_STREAM,
            "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"words\"}}}\n\n",
            "\"sequence_number\":2",
        ),
        (
            CompletionApi::Messages,
            MESSAGE_STREAM,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"words\"}}\n\n",
            "api_error",
        ),
        (CompletionApi::Messages, MESSAGE_STREAM, "data: [DONE]\n\n", "api_error"),
    ] {
        let answer = answer(api);
        let mut frames = NativeFrames::new(answer.clone(), EXPECTED);
        let mut out = BytesMut::new();
        let last = if api == CompletionApi::Responses {
            "data: {\"type\":\"response.completed"
        } else {
            "event: message_delta"
        };
        let begun = &stream[..stream.find(last).unwrap()];
        assert_eq!(frames.push(begun.as_bytes(), &mut out).unwrap(), StreamProgress::Ongoing);
        assert!(frames.push(rest.as_bytes(), &mut out).is_err());
        answer.fail(gateway_request::error::ProviderError::FAILED.into(), &mut out);
        let text = String::from_utf8(out.to_vec()).unwrap();
        assert!(text.contains(expected) && !text.contains("\"words\""), "{text}");
        let usage = frames.usage_so_far();
        assert!(usage.is_estimated && usage.completion >= 1, "{usage:?}");
    }
    let mut frames = NativeFrames::new(answer(CompletionApi::Messages), EXPECTED);
    assert!(matches!(frames.end(&mut BytesMut::new()), Err(StreamError::CutOff)));
}
