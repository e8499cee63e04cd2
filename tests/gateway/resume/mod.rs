//! `Idempotency-Key` and `Last-Event-ID`: an answer that was paid for once is given again, and a stream that was cut off goes on.

mod cuts;

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, future::join_all};
use reqwest::Response;
use serde_json::{Value, json};

use super::{Gateway, served_by};
use crate::{
    BACKGROUND,
    stubs::provider::{Act, Provider, Script, choice, event},
    world::{answer::Answer, eventually},
};

/// The formats, each with its path.
const PATHS: [&str; 3] = ["/v1/chat/completions", "/v1/responses", "/v1/messages"];
/// A text in answers of the provider.
const MARKER: &str = "xyzzy-plugh-1147";

/// A request in the format of a path.
fn body(path: &str, stream: bool) -> Value {
    let (model, said) = ("svc/gpt-oss-20b", json!([{ "role": "user", "content": "Hi?" }]));
    match path {
        "/v1/responses" => json!({ "model": model, "input": said, "stream": stream }),
        _ => json!({ "model": model, "messages": said, "max_tokens": 100, "stream": stream }),
    }
}

/// A request that is sent once or more often.
#[derive(Clone, Copy)]
struct Once<'a> {
    path: &'a str,
    stream: bool,
    key: &'a str,
}

impl Gateway {
    /// A gateway of several edges.
    async fn start_edges(edges: usize) -> Self {
        let provider = Provider::start().await;
        let world = served_by(&provider.url).edges(edges).start().await;
        let ada = world.user("ada").await;
        let key = super::create_key(&ada).await;
        Self { world, provider, ada, key }
    }

    /// Sends a request to an edge over a connection of its own.
    async fn send_once(&self, edge: usize, once: Once<'_>, last_event: Option<&str>) -> Response {
        let edge = &self.world.edges[edge];
        let url = edge.address(&self.url(once.path));
        let mut request =
            edge.another_browser(false).post(url).bearer_auth(&self.key).json(&body(once.path, once.stream));
        request = request.header("idempotency-key", once.key);
        if let Some(id) = last_event {
            request = request.header("last-event-id", id);
        }
        request.send().await.unwrap()
    }

    /// The whole answer to it.
    async fn once(&self, edge: usize, once: Once<'_>, last_event: Option<&str>) -> Answer {
        let response = self.send_once(edge, once, last_event).await;
        Answer::read(format!("{} {}", once.path, once.key), response).await
    }

    /// Waits until Postgres has this many completions.
    async fn assert_paid(&self, completions: i64) {
        let count = "SELECT count(*) FROM ai_usage WHERE certainty < 3";
        eventually(BACKGROUND, "all is metered", async || self.world.sql_number(count).await >= completions).await;
        assert_eq!(self.world.sql_number(count).await, completions);
    }
}

/// A stream without its comments, which come as time passes.
fn without_comments(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with(':')).collect()
}

/// The id of the last event of a stream.
fn last_id(text: &str) -> Option<&str> {
    text.lines().rev().find_map(|line| line.strip_prefix("id: "))
}

#[track_caller]
fn assert_replayed(answer: &Answer, is_replayed: bool) {
    assert_eq!(answer.find_header("idempotency-replayed").is_some(), is_replayed, "{}", answer.what);
}

#[tokio::test]
async fn an_answer_is_paid_for_once_and_given_again_at_every_edge() {
    let gateway = Gateway::start_edges(2).await;
    for (number, (path, stream)) in PATHS.iter().flat_map(|path| [(*path, true), (*path, false)]).enumerate() {
        let once = Once { path, stream, key: &format!("key-{number}") };
        gateway.provider.next(if stream { Script::usual_stream(12) } else { Script::completion() });
        let first = gateway.once(0, once, None).await.assert_status(200);
        assert_replayed(&first, false);
        assert!(first.find_header("x-ratelimit-remaining-requests").is_some());
        for edge in [0, 1] {
            let again = gateway.once(edge, once, None).await.assert_status(200);
            assert_replayed(&again, true);
            assert_eq!(without_comments(&again.text()), without_comments(&first.text()), "{path}");
            assert_eq!(again.header("content-type"), first.header("content-type"));
            assert_ne!(again.header("x-request-id"), first.header("x-request-id"));
        }
        if !stream {
            assert!(first.find_header("content-length").is_some());
            continue;
        }
        let text = without_comments(&first.text());
        let events: Vec<_> = text.split_inclusive("\n\n").collect();
        assert!(events.iter().all(|event| event.starts_with("id: ") && event.contains("\ndata: ")), "{text}");
        for edge in [0, 1] {
            let rest = gateway.once(edge, once, last_id(events[3])).await.assert_status(200);
            assert_eq!(without_comments(&rest.text()), events[4..].concat(), "{path}");
            let rest = gateway.once(edge, once, last_id(&text)).await.assert_status(200);
            assert_eq!(without_comments(&rest.text()), "", "{path}: all of it was there");
        }
    }
    assert_eq!(gateway.provider.asked().len(), 6);
    gateway.assert_paid(6).await;
    // Without a key nothing changes.
    gateway.provider.next(Script::usual_stream(3));
    assert!(!gateway.stream().await.text().contains("id: "));
}

#[tokio::test]
async fn a_key_stands_for_one_request_and_for_one_that_cost_something() {
    let gateway = Gateway::start_edges(2).await;
    let [chat, responses, messages] = PATHS.map(|path| Once { path, stream: false, key: "key" });
    // What fails and costs nothing may be tried again.
    gateway.provider.next(Script::error(500));
    gateway.once(1, chat, None).await.assert_openai_error(502, "upstream_error");
    gateway.once(0, chat, None).await.assert_status(200);
    for edge in [0, 1] {
        let refused = gateway.once(edge, responses, None).await;
        assert_eq!(refused.header("x-should-retry"), "false");
        refused.assert_openai_error(409, "idempotency_conflict");
        let refused = gateway.once(edge, messages, None).await.json(409);
        assert_eq!(refused["error"]["type"], "invalid_request_error");
        let streamed = Once { stream: true, ..chat };
        gateway.once(edge, streamed, None).await.assert_openai_error(409, "idempotency_conflict");
        // An event of no answer, or of another one.
        gateway.once(edge, chat, Some("00000000-0")).await.assert_openai_error(410, "completion_gone");
        let unknown = Once { key: "unknown", ..chat };
        gateway.once(edge, unknown, Some("00000000-0")).await.assert_openai_error(410, "completion_gone");
    }
    for (key, last_event) in [("", None), ("two words", None), ("k".repeat(256).as_str(), None)] {
        gateway.once(0, Once { key, ..chat }, last_event).await.assert_openai_error(400, "invalid_value");
    }
    let request = gateway.complete(&json!({})).header("last-event-id", "00000000-0");
    request.await.assert_openai_error(400, "invalid_value");
    // Another account's key of the same name is another key.
    let eve = gateway.world.user("eve").await;
    let key = super::create_key(&eve).await;
    let asked = gateway.provider.asked().len();
    let request = gateway.world.edge().post(&gateway.url(chat.path)).bearer(&key).header("idempotency-key", "key");
    assert_replayed(&request.json(&body(chat.path, false)).await.assert_status(200), false);
    assert_eq!(gateway.provider.asked().len(), asked + 1);
    gateway.assert_paid(2).await;
}

#[tokio::test]
async fn requests_with_one_key_at_a_time_are_one_exchange() {
    let gateway = Gateway::start_edges(2).await;
    for (key, stream) in [("stream", true), ("whole", false)] {
        let script = if stream { Script::usual_stream(12).held_after(4) } else { Script::completion().held_after(0) };
        gateway.provider.next(script);
        let asked = gateway.provider.asked().len();
        let once = Once { path: PATHS[0], stream, key };
        let asking = join_all((0..10).map(|number| gateway.once(number % 2, once, None)));
        let (answers, ()) = tokio::join!(asking, async {
            eventually(BACKGROUND, "the provider is asked", async || gateway.provider.asked().len() > asked).await;
            gateway.provider.go_on();
        });
        let texts: Vec<_> =
            answers.into_iter().map(|answer| without_comments(&answer.assert_status(200).text())).collect();
        assert!(texts.iter().all(|text| *text == texts[0]), "{texts:#?}");
        assert_eq!(gateway.provider.asked().len(), asked + 1);
    }
    gateway.assert_paid(2).await;
}

#[tokio::test]
async fn an_answer_goes_on_without_its_client_and_redis_sees_none_of_it() {
    let gateway = Gateway::start_edges(2).await;
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", gateway.world.redis_port)).unwrap();
    let mut listening = client.get_async_pubsub().await.unwrap();
    listening.psubscribe("svc:ai:answers:*").await.unwrap();
    let mut messages = listening.into_on_message();
    let word = event(&json!([choice(&json!({ "content": MARKER }), None)]), &Value::Null);
    let mut events = vec![word; 20];
    events.push("data: [DONE]".to_owned());
    gateway.provider.next(Script::events(&events).held_after(8));
    let once = Once { path: PATHS[0], stream: true, key: "key" };
    let mut response = gateway.send_once(0, once, None).await;
    let mut text = String::new();
    while text.matches(MARKER).count() < 3 {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    drop(response);
    gateway.provider.go_on();
    eventually(BACKGROUND, "the provider is read to its end", async || gateway.provider.finished() == 1).await;
    assert_eq!(gateway.provider.left(), 0);
    let all = gateway.once(1, once, None).await.assert_status(200).text();
    assert!(all.matches(MARKER).count() == 20 && all.ends_with("data: [DONE]\n\n"), "{all}");
    let mut seen = BTreeMap::<String, usize>::new();
    while seen.len() < 2 {
        let message = messages.next().await.unwrap();
        let payload = message.get_payload_bytes();
        assert!(!payload.windows(MARKER.len()).any(|bytes| bytes == MARKER.as_bytes()));
        *seen.entry(message.get_channel_name().to_owned()).or_default() += payload.len();
    }
    gateway.world.assert_no_trace(&[MARKER]).await;
}

#[tokio::test]
async fn what_its_dead_edge_had_is_gone_and_paid_once() {
    let mut gateway = Gateway::start_edges(2).await;
    gateway.provider.next(Script::usual_stream(40).held_after(20).then(Act::Hang));
    let once = Once { path: PATHS[0], stream: true, key: "key" };
    let mut response = gateway.send_once(0, once, None).await;
    let mut text = String::new();
    while last_id(&text).is_none() {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    gateway.world.edges[0].process.kill();
    let id = last_id(&text).unwrap().to_owned();
    eventually(BACKGROUND, "the other edge knows that it is gone", async || {
        let answer = gateway.once(1, once, Some(&id)).await;
        if answer.status == 503 {
            assert_eq!(answer.header("retry-after"), "5");
            return false;
        }
        answer.assert_openai_error(410, "completion_gone");
        true
    })
    .await;
    // From the start it is another exchange, which is asked for by name.
    let again = gateway.once(1, once, None).await.assert_status(200);
    assert_replayed(&again, false);
    assert!(again.text().contains("data: [DONE]"));
    assert_eq!(gateway.provider.asked().len(), 2);
    gateway.world.restart_edge(0).await;
    gateway.assert_paid(2).await;
    assert_replayed(&gateway.once(0, once, None).await.assert_status(200), true);
}
