//! Webhooks that the code host did not send: its own come in all the same.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::task::JoinSet;

use crate::{
    stubs::codehost::webhook::{WEBHOOK_SECRET, Webhook},
    world::{Actor, World, eventually, request::Request},
};

/// The time after which the code host gives a delivery up.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(10);
/// Webhooks that are held: more than the server received at a time when all clients shared one number.
const HELD: usize = 128;
const PAUSE: Duration = Duration::from_secs(2);
/// The clients' addresses, as an edge passes them on.
const MALLORY: &str = "203.0.113.9";
const CODE_HOST: &str = "192.30.252.1";

async fn world() -> World {
    World::builder().set("CODE_HOST__WEBHOOK_SECRET", WEBHOOK_SECRET).start().await
}

fn deliver(sender: &Actor, webhook: &Webhook) -> Request {
    sender
        .post("/webhooks/github")
        .header("content-type", "application/json")
        .header("x-github-event", webhook.event)
        .header("x-github-delivery", &webhook.delivery)
        .header("x-hub-signature-256", &webhook.signature)
        .body(webhook.body.clone())
}

fn made_up() -> Webhook {
    Webhook { signature: format!("sha256={}", "0".repeat(64)), ..Webhook::of("ping", b"{}".to_vec()) }
}

/// Begins a webhook with a made-up signature, and sends a byte of it now and then.
async fn hold(mallory: Actor, begun: Arc<AtomicUsize>) {
    let first = stream::once(async move {
        begun.fetch_add(1, Ordering::Relaxed);
        Bytes::from_static(b"{")
    });
    let rest = stream::unfold(tokio::time::interval(PAUSE), async |mut pause| {
        pause.tick().await;
        Some((Bytes::from_static(b" "), pause))
    });
    let body = reqwest::Body::wrap_stream(first.chain(rest).map(Ok::<_, std::io::Error>));
    // It ends with the test, or is refused.
    let _ = deliver(&mallory, &made_up()).body(body).attempt().await;
}

#[tokio::test]
async fn made_up_webhooks_that_are_held_keep_no_delivery_out() {
    let world = world().await;
    let [mallory, code_host] = [MALLORY, CODE_HOST].map(|address| world.nobody().at_address(address));
    let begun = Arc::new(AtomicUsize::new(0));
    let mut held = JoinSet::new();
    for _ in 0..HELD {
        held.spawn(hold(mallory.clone(), begun.clone()));
    }
    eventually(Duration::from_secs(20), "the webhooks are held", async || begun.load(Ordering::Relaxed) == HELD).await;
    let start = Instant::now();
    for size in [0, 900_000, 3_000_000] {
        let body = [b"{}".to_vec(), vec![b' '; size]].concat();
        deliver(&code_host, &Webhook::of("ping", body)).await.ok();
    }
    let took = start.elapsed();
    assert!(took < GIVEN_UP_AFTER, "the code host's deliveries took {took:?}");
}

#[tokio::test]
async fn a_client_that_makes_signatures_up_uses_up_its_own_rate() {
    let world = world().await;
    let [mallory, code_host] = [MALLORY, CODE_HOST].map(|address| world.nobody().at_address(address));
    let mut refused = None;
    for sent in 0..1_000 {
        let answer = deliver(&mallory, &made_up()).await;
        if answer.status == 429 {
            answer.assert_error(429, "rate_limit_exceeded");
            refused = Some(sent);
            break;
        }
        answer.assert_error(401, "unauthorized");
    }
    assert!(refused.is_some_and(|sent| sent >= 100), "{refused:?}");
    // Whoever signs is not counted, however often.
    for _ in 0..400 {
        deliver(&code_host, &Webhook::of("ping", b"{}".to_vec())).await.ok();
    }
}
