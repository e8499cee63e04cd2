//! Answers that are read whole before they are sent: how much of the edge's memory they may take.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Gateway, create_key};
use crate::{
    BACKGROUND,
    metrics::Page,
    stubs::provider::{Script, choice, completion, event},
    world::{Builder, eventually, ports},
};

const MIB: usize = 1024 * 1024;

fn words(bytes: usize) -> Value {
    completion(&"x".repeat(bytes))
}

/// The bytes that are held of whole answers.
async fn held(metrics_port: u16) -> f64 {
    Page::of(metrics_port).await.labelled("svc_edge_memory_bytes", r#"kind="answers""#).unwrap_or(-1.0)
}

#[tokio::test]
async fn an_answer_has_a_part_of_the_memory_and_no_more() {
    // Of the least memory there is an account has 2 MiB for them, and each counts twice.
    let gateway = Gateway::start_with(|world| world.set("EDGE__MEMORY", "0")).await;
    gateway.provider.next(Script::json(&words(3 * MIB / 4)));
    gateway.complete(&json!({})).await.assert_status(200);
    let event_of = |bytes: usize| event(&json!([choice(&json!({ "content": "x".repeat(bytes) }), None)]), &Value::Null);
    let mut events = vec![event_of(MIB / 2); 6];
    events.push("data: [DONE]".to_owned());
    for script in [Script::json(&words(3 * MIB)), Script::events(&events)] {
        gateway.provider.next(script);
        let refused = gateway.complete(&json!({})).await;
        // No client of OpenAI's pays for it again by itself.
        assert_eq!((refused.header("x-should-retry"), refused.header("retry-after")), ("false", "5"));
        refused.assert_openai_error(503, "service_unavailable");
    }
    // A stream that is passed on as it comes takes no such room.
    gateway.provider.next(Script::events(&events));
    assert_eq!(gateway.stream().await.frames().len(), 7, "and one for the usage");
    gateway.complete(&json!({})).await.assert_status(200);
    let all = "SELECT count(*) FROM ai_usage WHERE completion_tokens > 0";
    eventually(BACKGROUND, "each is charged", async || gateway.world.sql_number(all).await == 5).await;
}

#[tokio::test]
async fn nothing_is_asked_for_where_there_is_no_room_for_a_usual_answer() {
    let metrics = ports::free();
    let listen = format!("127.0.0.1:{metrics}");
    let configure = |world: Builder| world.set("EDGE__METRICS_LISTEN", listen).set("EDGE__MEMORY", "0");
    let gateway = Gateway::start_with(configure).await;
    // All that the account has, but for some 5 KB; its end is held.
    let bytes = MIB - 2_500;
    gateway.provider.next(Script::json(&words(bytes)).cut(bytes).held_after(2));
    let (first, ()) = tokio::join!(gateway.complete(&json!({})).into_future(), async {
        eventually(BACKGROUND, "it is there", async || held(metrics).await > 2e6).await;
        let refused = gateway.complete(&json!({})).await;
        assert_eq!((refused.find_header("x-should-retry"), refused.header("retry-after")), (None, "5"));
        refused.assert_openai_error(503, "service_unavailable");
        assert_eq!(gateway.provider.asked().len(), 1);
        gateway.stream().await.assert_status(200);
        gateway.provider.go_on();
    });
    first.assert_status(200);
    gateway.complete(&json!({})).await.assert_status(200);
}

#[tokio::test]
async fn what_nobody_reads_takes_its_accounts_memory_and_nobody_elses() {
    let metrics = ports::free();
    let listen = format!("127.0.0.1:{metrics}");
    // An account has 53 MiB.
    let configure = |world: Builder| world.set("EDGE__METRICS_LISTEN", listen).set("EDGE__MEMORY", "3400 MiB");
    let gateway = Gateway::start_with(configure).await;
    // More than what fits between the edge and a client.
    gateway.provider.next(Script::json(&words(24 * MIB)));
    let url = gateway.world.edge().address(&gateway.url("/v1/chat/completions"));
    let client = gateway.world.edge().another_browser(false);
    let unread = client.post(url).bearer_auth(&gateway.key).json(&super::request(&json!({}))).send().await.unwrap();
    assert_eq!(unread.status(), 200);
    eventually(BACKGROUND, "it is told of", async || held(metrics).await > 48e6).await;

    // Few words, and long lists of what might have been said. What is not read of it is charged by how long it took.
    let mut listed = completion("Hello!");
    listed.as_object_mut().unwrap().remove("usage");
    listed["choices"][0]["logprobs"] = json!({ "content": "x".repeat(8 * MIB) });
    gateway.provider.next(Script::json(&listed).held_after(0));
    let (refused, ()) = tokio::join!(gateway.complete(&json!({})).into_future(), async {
        eventually(BACKGROUND, "the provider is asked", async || gateway.provider.asked().len() == 2).await;
        let asked = Instant::now();
        eventually(BACKGROUND, "it works", async || asked.elapsed() >= Duration::from_millis(200)).await;
        gateway.provider.go_on();
    });
    refused.assert_openai_error(503, "service_unavailable");
    let charged = "SELECT count(*) FROM ai_usage WHERE certainty = 1 AND completion_tokens >= 20";
    eventually(BACKGROUND, "it is charged", async || gateway.world.sql_number(charged).await == 1).await;

    let bob = gateway.world.user("bob").await;
    let key = create_key(&bob).await;
    gateway.provider.next(Script::json(&listed));
    let request = gateway.world.edge().post(&gateway.url("/v1/chat/completions")).bearer(&key);
    request.json(&super::request(&json!({}))).await.assert_status(200);
    unread.bytes().await.unwrap();
    gateway.provider.next(Script::json(&listed));
    gateway.complete(&json!({})).await.assert_status(200);
    eventually(BACKGROUND, "nothing is held", async || held(metrics).await == 0.0).await;
}
