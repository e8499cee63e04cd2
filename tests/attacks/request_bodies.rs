//! Bodies of requests to the gateway that come up to their last bytes, and no further.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, future::join_all, stream};
use serde_json::json;
use tokio::time::Instant;

use super::{MEMORY_MIB, PATIENCE, pause, platform_floods::client};
use crate::{
    stubs::provider::{KEY, Provider},
    world::{World, eventually},
};

const CONNECTIONS: usize = 6;
const STREAMS: usize = 110;
/// What comes of each body.
const BYTES: usize = 60_000;
/// What the edge may grow by: a small part of what is sent, 40 MB, of which one connection may hold 1 MB.
const GROWTH: u64 = 24 * 1024 * 1024;

/// A body that says nothing of its length and does not end.
fn held_back() -> reqwest::Body {
    let pieces = (0..BYTES / 10_000).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 10_000])));
    reqwest::Body::wrap_stream(stream::iter(pieces).chain(stream::pending()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_held_back_take_a_share_of_memory() {
    let provider = Provider::start().await;
    let world = World::builder()
        .set("EDGE__MEMORY", format!("{MEMORY_MIB} MiB"))
        .set("GATEWAY__PROVIDER_URL", &provider.url)
        .set("GATEWAY__PROVIDER_API_KEY", KEY)
        // High enough for the watch, which asks all the time.
        .set("LIMITS__GATEWAY_PER_MIN", 1_000_000)
        .set("LIMITS__GATEWAY_TOKENS_PER_DAY", 1_000_000_000)
        .start()
        .await;
    let ada = world.user("ada").await;
    let created = ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
    let key = created["token"].as_str().unwrap().to_owned();
    let url = format!("https://ai.svc.localhost:{}/v1/chat/completions", world.public_port());
    let complete = async || {
        let request = json!({ "model": "svc/gpt-oss-20b", "messages": [{ "role": "user", "content": "Hi?" }] });
        let answer = world.edge().post(&url).bearer(&key).json(&request).await;
        (answer.status.as_u16(), answer.text())
    };
    assert_eq!(complete().await.0, 200);

    let before = world.edge().process.memory("VmRSS");
    let (sender, mut statuses) = tokio::sync::mpsc::channel(CONNECTIONS * STREAMS);
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let attacker = client(&world, 1);
        for _ in 0..STREAMS {
            let sent = attacker.post(world.edge().address(&url)).bearer_auth(&key).body(held_back()).send();
            let sender = sender.clone();
            held.push(tokio::spawn(async move {
                let Ok(response) = sent.await else {
                    // Its connection was cut, because it keeps memory from others and does not go on.
                    let _ = sender.send(None).await;
                    return;
                };
                let retry = response.headers().get("retry-after").map(|wait| wait.to_str().unwrap().to_owned());
                let status = response.status().as_u16();
                let text = response.text().await.unwrap_or_default();
                let _ = sender.send(Some((status, retry, text))).await;
            }));
        }
    }
    let (start, mut most) = (Instant::now(), before);
    let (mut served, mut unchecked) = (0, 0);
    while start.elapsed() < Duration::from_secs(10) {
        match complete().await {
            (200, _) => served += 1,
            // Not about memory: where every core is busy, Redis answers an admission later than the edge waits.
            (503, text) if text.contains("cannot check your limits") => unchecked += 1,
            (status, text) => panic!("another client is served: {status} {text}"),
        }
        most = world.edge().process.memory("VmRSS").max(most);
        pause(Duration::from_millis(100)).await;
    }
    let growth = most - before;
    assert!(served > 10 * unchecked, "{served} completions of another client, and {unchecked} that were not checked");
    for task in &held {
        task.abort();
    }
    join_all(held).await;
    assert!(growth < GROWTH, "the edge grew by {growth} bytes, from {before}");
    let mut refused = 0;
    while let Ok(ended) = statuses.try_recv() {
        refused += 1;
        let Some((status, retry, text)) = ended else { continue };
        assert_eq!((status, retry.as_deref()), (503, Some("5")), "{text}");
        assert!(text.contains("\"code\":\"service_unavailable\""), "{text}");
    }
    assert!(refused > CONNECTIONS * STREAMS / 4, "{refused} were told to come again, or cut");
    eventually(PATIENCE, "completions go on", async || complete().await.0 == 200).await;
}
