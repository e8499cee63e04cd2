//! Prompts and completions are not logged or stored: not in a log, a metric, a Redis key, a database row or a file.

use serde_json::json;

use super::Gateway;
use crate::{
    BACKGROUND,
    metrics::Page,
    stubs::provider::{Act, Script, choice, completion, event},
    world::{eventually, ports},
};

/// A text in every prompt and in every completion.
const MARKER: &str = "xyzzy-plugh-4711";

#[tokio::test]
async fn prompts_and_completions_leave_no_trace() {
    let (edge_metrics, admin_metrics) = (ports::free(), ports::free());
    let gateway = Gateway::start_with(|world| {
        world
            .set("GATEWAY__IDLE_SECONDS", 1)
            .set("GATEWAY__FIRST_BYTE_SECONDS", 2)
            .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{edge_metrics}"))
            .set("ADMIN__METRICS_LISTEN", format!("127.0.0.1:{admin_metrics}"))
    })
    .await;
    let words =
        |count: usize| (0..count).map(|_| event(&json!([choice(&json!({ "content": MARKER }), None)]), &json!(null)));
    let ends = [
        event(&json!([choice(&json!({}), Some("stop"))]), &json!({ "prompt_tokens": 1, "completion_tokens": 2 })),
        "data: [DONE]".to_owned(),
    ];
    let whole: Vec<_> = words(5).chain(ends.clone()).collect();
    let bytes = |events: Vec<String>| events.into_iter().map(|event| format!("{event}\n\n").into_bytes());
    let error = format!("data: {{\"error\":\"{MARKER}\"}}");
    let scripts = [
        (false, Script::json(&completion(MARKER))),
        (false, Script::answer(400, &[("x-said", MARKER)], MARKER.as_bytes())),
        (false, Script::answer(500, &[("content-type", MARKER)], MARKER.as_bytes())),
        (false, Script::answer(200, &[], MARKER.as_bytes())),
        (false, Script(vec![Act::Send(format!("{MARKER}\r\n\r\n").into_bytes()), Act::Close])),
        (false, Script(vec![Act::Hang])),
        (true, Script::events(&whole)),
        (true, Script::events(&words(3).chain([error]).collect::<Vec<_>>())),
        (true, Script::events(&words(3).chain([MARKER.to_owned(), format!("data: {MARKER}")]).collect::<Vec<_>>())),
        (true, Script::stream(bytes(words(3).collect()), false).then(Act::Close)),
        (true, Script::stream(bytes(words(3).collect()), false).then(Act::Hang)),
        // Without a usage report, so that it is estimated.
        (true, Script::events(&words(3).chain(["data: [DONE]".to_owned()]).collect::<Vec<_>>())),
    ];
    let count = scripts.len();
    for (stream, script) in scripts {
        gateway.provider.next(script);
        ask(&gateway, stream, false).await;
    }
    for stream in [true, false] {
        let script = if stream { Script::events(&whole) } else { Script::json(&completion(MARKER)).cut(50) };
        gateway.provider.next(script.held_after(2));
        ask(&gateway, stream, true).await;
        eventually(BACKGROUND, "the edge knows that the client has gone", async || {
            (Page::of(edge_metrics).await.sum("svc_gateway_drains") - 1.0).abs() < f64::EPSILON
        })
        .await;
        gateway.provider.go_on();
    }
    // Requests that are refused before a provider is asked.
    for body in
        [format!("{{\"{MARKER}\""), MARKER.to_owned(), super::request(&json!({ "max_tokens": MARKER })).to_string()]
    {
        gateway.post(body).await.assert_status(400);
    }
    gateway.complete(&json!({ "user": MARKER.repeat(10_000) })).await.assert_status(413);
    assert_eq!(gateway.provider.asked().len(), count + 2);
    let all = "SELECT count(*) FROM ai_usage";
    eventually(BACKGROUND, "everything is counted", async || gateway.world.sql_number(all).await >= 6).await;
    assert!(gateway.provider.asked().iter().all(|asked| asked.text.contains(MARKER)));

    let world = &gateway.world;
    for edge in &world.edges {
        assert!(!edge.process.log().contains(MARKER), "the edge's log: {}", edge.process.log());
    }
    assert!(!world.admin.log().contains(MARKER), "admin's log");
    for port in [edge_metrics, admin_metrics] {
        let page = Page::of(port).await;
        assert!(page.text.contains("svc_build_info") && !page.text.contains(MARKER), "{}", page.text);
    }
    world.assert_no_trace(&[MARKER]).await;
}

/// Asks with the marker, and reads the whole answer or disconnects in its middle.
async fn ask(gateway: &Gateway, stream: bool, disconnects: bool) {
    let url = gateway.world.edge().address(&gateway.url("/v1/chat/completions"));
    let client = gateway.world.edge().another_browser(false);
    let messages = json!([{ "role": "system", "content": MARKER }, { "role": "user", "content": MARKER }]);
    let body = super::request(&json!({ "stream": stream, "messages": messages, "user": MARKER }));
    let asked = gateway.provider.asked().len();
    let sending = client.post(url).bearer_auth(&gateway.key).json(&body).send();
    if disconnects {
        let asking = tokio::spawn(async move { sending.await.unwrap().chunk().await });
        eventually(BACKGROUND, "the provider is asked", async || gateway.provider.asked().len() > asked).await;
        asking.abort();
    } else {
        let _ = sending.await.unwrap().bytes().await;
    }
}
