//! Traces: what a collector is sent of completions, and that it is never a word of them.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{Gateway, create_key, request, served_by};
use crate::{
    BACKGROUND,
    metrics::Page,
    stubs::{
        listener::Listener,
        provider::{Act, Provider, Script, choice, completion, event},
    },
    world::{eventually, ports},
};

/// A text in every prompt and in every answer.
const MARKER: &str = "xyzzy-plugh-3141";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// The spans of what was taken.
pub(super) fn spans(collector: &Listener) -> Vec<Value> {
    let taken = collector.posted().into_iter().filter(|posted| posted.status.is_success());
    let bodies = taken.map(|posted| serde_json::from_str::<Value>(&posted.body).unwrap());
    let spans = bodies.flat_map(|body| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone());
    spans.collect()
}

/// The value of an attribute, whatever its type.
pub(super) fn attribute(span: &Value, key: &str) -> Value {
    let attributes = span["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    found.map_or(Value::Null, |found| found["value"].as_object().unwrap().values().next().unwrap().clone())
}

#[tokio::test]
async fn a_collector_learns_of_every_completion_and_of_no_word() {
    let (provider, collector, metrics) = (Provider::start().await, Listener::start().await, ports::free());
    let folder = tempfile::tempdir().unwrap();
    let headers = folder.path().join("headers");
    std::fs::write(&headers, "# of the collector\nx-key: secret\n").unwrap();
    let builder = served_by(&provider.url)
        .set("TELEMETRY__TRACES_URL", &collector.url)
        .set("TELEMETRY__TRACES_HEADERS_FILE", headers.display())
        .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{metrics}"));
    let world = builder.start().await;
    let ada = world.user("ada").await;
    let key = create_key(&ada).await;
    let gateway = Gateway { world, provider, ada, key };
    // The first batch is sent again.
    collector.next(StatusCode::SERVICE_UNAVAILABLE);
    let words = |count: usize| vec![event(&json!([choice(&json!({ "content": MARKER }), None)]), &Value::Null); count];
    let ends = [
        event(&json!([choice(&json!({}), Some("stop"))]), &json!({ "prompt_tokens": 7, "completion_tokens": 5 })),
        "data: [DONE]".to_owned(),
    ];
    let whole: Vec<_> = words(5).into_iter().chain(ends).collect();
    let broken = words(3).into_iter().map(|event| format!("{event}\n\n").into_bytes());
    let scripts = [
        (false, None, Script::json(&completion(MARKER))),
        (true, None, Script::events(&whole)),
        (true, Some("once"), Script::events(&whole)),
        (true, None, Script::stream(broken, false).then(Act::Close)),
        (false, None, Script::answer(500, &[("x-said", MARKER)], MARKER.as_bytes())),
    ];
    for (number, (stream, once, script)) in scripts.into_iter().enumerate() {
        gateway.provider.next(script);
        let said = json!([{ "role": "user", "content": format!("{MARKER} {number}") }]);
        let url = gateway.world.edge().address(&gateway.url("/v1/chat/completions"));
        let client = gateway.world.edge().another_browser(false);
        let body = request(&json!({ "stream": stream, "messages": said, "user": MARKER }));
        let mut sending = client.post(url).bearer_auth(&gateway.key).json(&body);
        sending = sending.header("traceparent", format!("00-{TRACE}-{:016x}-01", number + 1));
        if let Some(key) = once {
            sending = sending.header("idempotency-key", key);
        }
        let _ = sending.send().await.unwrap().bytes().await;
    }
    eventually(BACKGROUND, "all spans are there", async || spans(&collector).len() == 5).await;
    for posted in collector.posted() {
        assert!(!posted.body.contains(MARKER) && !posted.body.contains("usr_"), "{}", posted.body);
        assert_eq!(posted.headers["x-key"], "secret");
        assert_eq!(posted.headers["content-type"], "application/json");
    }
    assert!(collector.posted().iter().any(|posted| posted.status == StatusCode::SERVICE_UNAVAILABLE));
    let mut spans = spans(&collector);
    spans.sort_by_key(|span| span["parentSpanId"].as_str().unwrap().to_owned());
    for span in &spans {
        assert_eq!((&span["traceId"], &span["kind"]), (&json!(TRACE), &json!(3)));
        assert_eq!(span["name"], "chat svc/gpt-oss-20b");
        assert_eq!(attribute(span, "gen_ai.operation.name"), "chat");
        assert_eq!(attribute(span, "gen_ai.request.model"), "svc/gpt-oss-20b");
        assert_eq!(attribute(span, "server.address"), "127.0.0.1");
        let nanos = |field: &str| span[field].as_str().unwrap().parse::<u128>().unwrap();
        assert!(nanos("endTimeUnixNano") >= nanos("startTimeUnixNano"));
    }
    let said = |number: usize| {
        let of = |key| attribute(&spans[number], key);
        (of("gen_ai.usage.input_tokens"), of("gen_ai.usage.output_tokens"), of("error.type"))
    };
    assert_eq!(said(0), (json!("9"), json!("12"), Value::Null));
    for number in [1, 2] {
        assert_eq!(said(number), (json!("7"), json!("5"), Value::Null));
        let reasons = attribute(&spans[number], "gen_ai.response.finish_reasons");
        assert_eq!(reasons, json!({ "values": [{ "stringValue": "stop" }] }), "{number}");
    }
    assert_eq!(said(3).2, "upstream_error");
    assert_eq!(said(4), (Value::Null, Value::Null, json!("upstream_error")));
    assert_eq!(attribute(&spans[4], "http.response.status_code"), "502");
    assert_eq!(spans[4]["status"], json!({ "code": 2 }));
    let ids: Vec<_> = spans[..4].iter().map(|span| attribute(span, "svc.completion.id")).collect();
    assert!(ids.iter().all(Value::is_string), "{ids:?}");
    let sent = async || Page::of(metrics).await.sum("svc_traces_sent_total");
    eventually(BACKGROUND, "they are counted", async || (sent().await - 5.0).abs() < f64::EPSILON).await;
    assert!(Page::of(metrics).await.sum("svc_traces_dropped_total") < 0.5);
}
