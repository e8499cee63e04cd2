//! Clients that disconnect: the provider's answer is read to its end, and metered.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Gateway, create_key, deaf_port, request, served_by};
use crate::{
    BACKGROUND,
    metrics::Page,
    stubs::provider::{Act, Provider, Script, completion, usual_events},
    world::{Builder, eventually, ports},
};

/// Events in a stream before it is held.
const HEARD: usize = 20;
/// Answers of one account that are read to their end concurrently without their clients.
const ACCOUNT_DRAINS: usize = 32;

/// Asks for a completion, and disconnects once the provider was asked.
async fn ask_and_disconnect(gateway: &Gateway, client: &reqwest::Client, stream: bool) {
    let asked = gateway.provider.asked().len();
    let asking = tokio::spawn(ask(gateway, client, stream));
    eventually(BACKGROUND, "the provider is asked", async || gateway.provider.asked().len() > asked).await;
    asking.abort();
    let _ = asking.await;
}

/// Asks for a stream, and disconnects after its first chunk.
async fn listen_and_disconnect(gateway: &Gateway, client: &reqwest::Client) {
    listen(gateway, client).await.chunk().await.unwrap().expect("a first chunk");
}

/// Asks for a stream until the edge admits it: on a busy machine Redis may answer so late that the edge refuses with 503.
async fn listen(gateway: &Gateway, client: &reqwest::Client) -> reqwest::Response {
    let mut stream = None;
    eventually(BACKGROUND, "the stream is admitted", async || {
        let answer = ask(gateway, client, true).await.unwrap();
        let status = answer.status().as_u16();
        assert!(matches!(status, 200 | 503), "{status}");
        stream = Some(answer);
        status == 200
    })
    .await;
    stream.unwrap()
}

fn ask(
    gateway: &Gateway,
    client: &reqwest::Client,
    stream: bool,
) -> impl Future<Output = reqwest::Result<reqwest::Response>> + Send + use<> {
    ask_for(gateway, client, &json!({ "stream": stream }))
}

fn ask_for(
    gateway: &Gateway,
    client: &reqwest::Client,
    fields: &Value,
) -> impl Future<Output = reqwest::Result<reqwest::Response>> + Send + use<> {
    let url = gateway.world.edge().address(&gateway.url("/v1/chat/completions"));
    client.post(url).bearer_auth(&gateway.key).json(&request(fields)).send()
}

#[tokio::test]
async fn an_answer_is_read_to_its_end_without_its_client() {
    let metrics = ports::free();
    let listen = format!("127.0.0.1:{metrics}");
    let gateway = Gateway::start_with(|world| world.set("EDGE__METRICS_LISTEN", listen)).await;
    // A client of its own each time: its connection is closed with it.
    for (stream, http2) in [(true, true), (true, false), (false, true), (false, false)] {
        let finished = gateway.provider.finished();
        let script = if stream {
            Script::usual_stream(40).held_after(HEARD)
        } else {
            Script::completion().cut(20).held_after(0)
        };
        gateway.provider.next(script);
        let client = gateway.world.edge().another_browser(http2);
        if stream {
            listen_and_disconnect(&gateway, &client).await;
        } else {
            ask_and_disconnect(&gateway, &client, false).await;
        }
        drop(client);
        eventually(BACKGROUND, "the edge knows that the client has gone", async || {
            (Page::of(metrics).await.sum("svc_gateway_drains") - 1.0).abs() < f64::EPSILON
        })
        .await;
        gateway.provider.go_on();
        eventually(BACKGROUND, "the provider is heard to its end", async || {
            gateway.provider.finished() == finished + 1
        })
        .await;
    }
    assert_eq!(gateway.provider.left(), 0);
    // 40 words of each stream and 12 tokens of each completion are metered as if the client had stayed.
    let usage = "SELECT coalesce(sum(completion_tokens), 0)::bigint FROM ai_usage WHERE NOT estimated";
    eventually(BACKGROUND, "all is metered", async || gateway.world.sql_number(usage).await == 2 * 40 + 2 * 12).await;
    assert_eq!(gateway.world.sql_number("SELECT count(*) FROM ai_usage").await, 4);
}

#[tokio::test]
async fn what_a_reader_does_not_read_is_not_taken_into_memory() {
    // Far more than what fits between the provider and the client.
    const WORDS: usize = 60_000;
    let gateway = Gateway::start().await;
    gateway.provider.next(Script::usual_stream(WORDS));
    let unread = listen(&gateway, &gateway.world.edge().another_browser(false)).await;
    // While a stream as long is read from its beginning to its end, this one would have been read as well.
    gateway.provider.next(Script::usual_stream(WORDS));
    let read = listen(&gateway, &gateway.world.edge().another_browser(false)).await.text().await.unwrap();
    assert!(read.trim_end().ends_with("[DONE]"));
    eventually(BACKGROUND, "the other one is heard to its end", async || gateway.provider.finished() > 0).await;
    assert_eq!(gateway.provider.finished(), 1, "the whole stream was taken into memory");
    drop(unread);
    eventually(BACKGROUND, "the rest is read", async || gateway.provider.finished() == 2).await;
}

/// A gateway at which the account's places for answers without clients are all taken, by streams or by whole ones that its provider
/// begins like this and holds, and the port of its metrics.
async fn without_a_place(streams: bool, answer: Script) -> (Gateway, u16) {
    let metrics = ports::free();
    let listen = format!("127.0.0.1:{metrics}");
    let gateway = Gateway::start_with(|world| world.set("EDGE__METRICS_LISTEN", listen)).await;
    let client = gateway.world.edge().another_browser(true);
    for _ in 0..ACCOUNT_DRAINS {
        gateway.provider.next(answer.clone());
        ask_and_disconnect(&gateway, &client, streams).await;
    }
    eventually(BACKGROUND, "every place is taken", async || {
        Page::of(metrics).await.sum("svc_gateway_drains") >= f64::from(u32::try_from(ACCOUNT_DRAINS).unwrap())
    })
    .await;
    (gateway, metrics)
}

impl Gateway {
    /// Lets the provider end all answers that it holds, and waits until as many are metered exactly.
    async fn end_all(&self) {
        eventually(BACKGROUND, "the provider is heard to its end", async || {
            self.provider.go_on();
            self.provider.finished() >= ACCOUNT_DRAINS
        })
        .await;
        let exact = "SELECT count(*) FROM ai_usage WHERE certainty = 2 AND completion_tokens = 12";
        let all = i64::try_from(ACCOUNT_DRAINS).unwrap();
        eventually(BACKGROUND, "the others are metered", async || self.world.sql_number(exact).await == all).await;
    }
}

#[tokio::test]
async fn answers_that_nobody_reads_are_charged_for_the_most_that_they_may_use() {
    let (gateway, _) = without_a_place(false, Script::completion().held_after(0)).await;
    // Before the head of the answer, with and without a stream, and after the first words.
    for (number, (stream, heard)) in [(false, false), (true, false), (true, true)].into_iter().enumerate() {
        let client = gateway.world.edge().another_browser(false);
        let held_after = if heard { 4 } else { 0 };
        let script = if stream { Script::usual_stream(12) } else { Script::completion() };
        gateway.provider.next(script.held_after(held_after));
        let asked = gateway.provider.asked().len();
        let asking = ask_for(&gateway, &client, &json!({ "stream": stream, "max_tokens": 700 }));
        if heard {
            asking.await.unwrap().chunk().await.unwrap().expect("a first chunk");
        } else {
            let asking = tokio::spawn(asking);
            eventually(BACKGROUND, "the provider is asked", async || gateway.provider.asked().len() > asked).await;
            asking.abort();
            let _ = asking.await;
        }
        drop(client);
        let charged = "SELECT count(*) FROM ai_usage
            WHERE certainty = 1 AND completion_tokens = 700 AND prompt_tokens BETWEEN 1 AND 60";
        let count = i64::try_from(number).unwrap() + 1;
        eventually(BACKGROUND, "it is charged", async || {
            assert_eq!(
                gateway.world.sql_number("SELECT count(*) FROM ai_usage WHERE completion_tokens <> 700").await,
                0
            );
            gateway.world.sql_number(charged).await == count
        })
        .await;
    }
    gateway.end_all().await;
}

#[tokio::test]
async fn a_stream_whose_client_left_before_it_began_is_read_to_its_end_though_no_place_is_left() {
    let (gateway, metrics) = without_a_place(true, Script::usual_stream(12).held_after(0)).await;
    gateway.end_all().await;
    assert_eq!(gateway.provider.left(), 0);
    assert!(Page::of(metrics).await.sum("svc_gateway_drains_refused_total") < 0.5);
}

#[tokio::test]
async fn the_frames_that_did_not_pass_are_counted_though_nobody_reads_on() {
    let (gateway, metrics) = without_a_place(true, Script::usual_stream(12).held_after(0)).await;
    let mut events = usual_events(12);
    events.insert(1, r#"data: {"detail":"x"}"#.to_owned());
    let client = gateway.world.edge().another_browser(false);
    // The head, and three events.
    gateway.provider.next(Script::events(&events).held_after(4));
    let mut answer = ask(&gateway, &client, true).await.unwrap();
    let mut heard = String::new();
    while !heard.contains("wörd0") {
        heard += str::from_utf8(&answer.chunk().await.unwrap().unwrap()).unwrap();
    }
    drop((answer, client));
    eventually(BACKGROUND, "it is counted", async || {
        Page::of(metrics).await.sum("svc_gateway_frames_left_out_total") > 0.5
    })
    .await;
    assert!(gateway.world.edge().process.log().contains("frames of a stream"));
}

#[tokio::test]
async fn a_whole_answer_is_under_way_until_it_is_read() {
    let configure = |world: Builder| world.set("LIMITS__GATEWAY_CONCURRENT", 1).set("EDGE__MEMORY", "8 GiB");
    let gateway = Gateway::start_with(configure).await;
    // More than what fits between the edge and a client.
    gateway.provider.next(Script::json(&completion(&"x".repeat(24 << 20))));
    let answer = ask(&gateway, &gateway.world.edge().another_browser(false), false).await.unwrap();
    assert_eq!(answer.status(), 200);
    gateway.complete(&json!({})).await.assert_openai_error(429, "rate_limit_exceeded");
    answer.bytes().await.unwrap();
    eventually(BACKGROUND, "it has ended", async || gateway.complete(&json!({})).await.status == 200).await;
}

#[tokio::test]
async fn a_connection_that_stays_open_after_a_stream_takes_no_place_of_an_answer() {
    let mut unending = Script::usual_stream(12).held_after(0);
    unending.0.pop();
    let (gateway, metrics) = without_a_place(true, unending.then(Act::Hang)).await;
    let exact = async |count: usize| {
        eventually(BACKGROUND, "the answers are metered", async || {
            // All at once: the connections are waited for no longer than a second.
            (0..ACCOUNT_DRAINS).for_each(|_| gateway.provider.go_on());
            let exact = "SELECT count(*) FROM ai_usage WHERE certainty = 2";
            gateway.world.sql_number(exact).await == i64::try_from(count).unwrap()
        })
        .await;
    };
    exact(ACCOUNT_DRAINS).await;
    let client = gateway.world.edge().another_browser(true);
    gateway.provider.next(Script::usual_stream(12).held_after(0).held_after(0));
    ask_and_disconnect(&gateway, &client, true).await;
    exact(ACCOUNT_DRAINS + 1).await;
    assert!(Page::of(metrics).await.sum("svc_gateway_drains_refused_total") < 0.5);
}

#[tokio::test]
async fn a_client_that_leaves_while_the_provider_is_connected_to_asks_it_for_nothing() {
    let (port, queued) = deaf_port().await;
    let metrics = ports::free();
    let world = served_by(&format!("http://{}", port.local_addr().unwrap()));
    let world = world.set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{metrics}")).start().await;
    let key = create_key(&world.user("ada").await).await;
    let drains = async || Page::of(metrics).await.sum("svc_gateway_drains");
    let account = world.sql_text("SELECT id FROM users WHERE vcs_login = 'ada'").await;
    let open_key = format!("svc:ai:{{{account}}}:open");
    let reserved = async || world.redis_number("HLEN", &[&open_key]).await;
    let url = world.edge().address(&format!("https://ai.svc.localhost:{}/v1/chat/completions", world.public_port()));
    let client = world.edge().another_browser(false);
    let asking = tokio::spawn(client.post(url).bearer_auth(&key).json(&request(&json!({}))).send());
    eventually(BACKGROUND, "it is admitted", async || reserved().await > Some(0)).await;
    asking.abort();
    drop((asking.await, client));
    eventually(BACKGROUND, "the edge knows", async || reserved().await == Some(0) || drains().await > 0.5).await;
    let provider = Provider::start_on(port);
    eventually(BACKGROUND, "nothing is under way", async || reserved().await == Some(0)).await;
    drop(queued);
    assert!(provider.asked().is_empty());
    assert_eq!(world.sql_number("SELECT count(*) FROM ai_usage").await, 0);
}

#[tokio::test]
async fn a_client_that_leaves_while_redis_is_silent_is_charged_nothing() {
    let (gateway, metrics) = without_a_place(false, Script::completion().held_after(0)).await;
    let account = gateway.world.sql_text("SELECT id FROM users WHERE vcs_login = 'ada'").await;
    let (minute, open) = (format!("svc:ai:{{{account}}}:minute"), format!("svc:ai:{{{account}}}:open"));
    let count = async |command: &str, key: &String| gateway.world.redis_number(command, &[key]).await;
    let others = i64::try_from(ACCOUNT_DRAINS).unwrap();
    eventually(BACKGROUND, "no spares are out", async || count("HLEN", &open).await == Some(others)).await;
    let before = count("LLEN", &minute).await.unwrap();
    gateway.world.redis_number("CLIENT", &["PAUSE", "2000", "ALL"]).await;
    let client = gateway.world.edge().another_browser(false);
    // Sooner than the edge gives up on Redis.
    let answered = timeout(Duration::from_millis(200), ask(&gateway, &client, false)).await;
    assert!(answered.is_err(), "it was answered: {answered:?}");
    drop(client);
    eventually(BACKGROUND, "there is no place for it", async || {
        Page::of(metrics).await.sum("svc_gateway_drains_refused_total") > 0.5
    })
    .await;
    // It may have admitted the request by then, unless the edge has given the connection up before.
    eventually(BACKGROUND, "Redis answers again", async || count("LLEN", &minute).await >= Some(before)).await;
    eventually(BACKGROUND, "it is released", async || count("HLEN", &open).await == Some(others)).await;
    assert_eq!(gateway.provider.asked().len(), ACCOUNT_DRAINS);
    gateway.end_all().await;
    eventually(BACKGROUND, "nothing is open", async || count("HLEN", &open).await == Some(0)).await;
    assert_eq!(gateway.world.sql_number("SELECT count(*) FROM ai_usage").await, others);
}
