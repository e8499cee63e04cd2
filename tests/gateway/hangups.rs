//! Clients that disconnect: the provider's answer is read to its end, and metered.

use std::time::Duration;

use serde_json::json;

use super::Gateway;
use crate::{
    BACKGROUND,
    stubs::provider::{Act, Script},
    world::eventually,
};

const PAUSE: Duration = Duration::from_millis(30);

/// Asks for a completion, and disconnects: from a stream after its first chunk, else once the provider was asked.
async fn ask_and_disconnect(gateway: &Gateway, client: &reqwest::Client, stream: bool) {
    let url = gateway.world.edge().address(&gateway.url("/v1/chat/completions"));
    let request = client.post(url).bearer_auth(&gateway.key).json(&super::request(&json!({ "stream": stream })));
    let asked = gateway.provider.asked().len();
    let asking = tokio::spawn(async move {
        let mut answer = request.send().await.unwrap();
        answer.chunk().await.unwrap().expect("a first chunk");
    });
    if stream {
        asking.await.unwrap();
    } else {
        eventually(BACKGROUND, "the provider is asked", async || gateway.provider.asked().len() > asked).await;
        asking.abort();
        let _ = asking.await;
    }
}

#[tokio::test]
async fn an_answer_is_read_to_its_end_after_its_client_disconnects() {
    let gateway = Gateway::start().await;
    // Each time another client, whose connection is closed with it.
    for (stream, http2) in [(true, true), (true, false), (false, true), (false, false)] {
        let finished = gateway.provider.finished();
        let script = if stream {
            Script::usual_stream(40).slowly(PAUSE)
        } else {
            let completion = Script::completion();
            Script([vec![Act::Wait(PAUSE * 20)], completion.cut(20).0].concat())
        };
        gateway.provider.next(script);
        let client = gateway.world.edge().another_browser(http2);
        ask_and_disconnect(&gateway, &client, stream).await;
        drop(client);
        eventually(BACKGROUND, "the answer is read to its end", async || gateway.provider.finished() == finished + 1)
            .await;
    }
    assert_eq!(gateway.provider.left(), 0);
    // 40 words of each stream and 12 tokens of each completion are metered as if the client had stayed.
    let usage = "SELECT coalesce(sum(completion_tokens), 0)::bigint FROM ai_usage WHERE NOT estimated";
    eventually(BACKGROUND, "all is metered", async || gateway.world.sql_number(usage).await == 2 * 40 + 2 * 12).await;
    assert_eq!(gateway.world.sql_number("SELECT count(*) FROM ai_usage").await, 4);
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_back_the_provider() {
    let gateway = Gateway::start().await;
    // Much more than the buffers between the provider and the client hold.
    gateway.provider.next(Script::usual_stream(60_000));
    let url = gateway.world.edge().address(&gateway.url("/v1/chat/completions"));
    let client = gateway.world.edge().another_browser(false);
    let request = client.post(url).bearer_auth(&gateway.key).json(&super::request(&json!({ "stream": true })));
    let answer = request.send().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(gateway.provider.finished(), 0, "the whole stream was taken into memory");
    drop((answer, client));
    eventually(BACKGROUND, "the rest is read", async || gateway.provider.finished() == 1).await;
}
