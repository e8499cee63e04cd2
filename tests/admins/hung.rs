//! An admin that hangs: stopped, as by a disk that is frozen or a machine that is unreachable.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

use super::{Pair, call};
use crate::{
    BACKGROUND,
    world::{Site, events::EventStream, eventually, site::noise},
};

/// The time within which a request that a hung admin has ends: it is noticed after some three seconds, and bears no more than ten
/// after that. Some more for a machine that is busy.
const GIVEN_UP: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_admin_holds_nobody() {
    let pair = Pair::start().await;
    pair.ada.create_project("engine").await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(EventStream::open(pair.call(Method::GET, "/events")).await);
    }
    pair.other.signal("STOP");

    let start = Instant::now();
    let reads = join_all((0..8).map(|_| pair.call(Method::GET, "/me").into_future()));
    let changes = join_all((0..6).map(|n| {
        pair.call(Method::PUT, &format!("/projects/engine/env/KEY_{n}")).json(&json!({ "value": "1" })).into_future()
    }));
    let site = Site::new().file("film.bin", noise(300_000));
    let uploads = join_all(
        (0..3).map(|_| pair.call(Method::POST, "/projects/engine/deployments").upload(site.tarball()).into_future()),
    );
    let (reads, changes, uploads) = tokio::join!(reads, changes, uploads);
    let took = start.elapsed();
    assert!(took < GIVEN_UP, "{took:?}");
    for read in reads {
        read.ok();
    }
    let mut broken = 0;
    for change in changes.iter().chain(&uploads) {
        if change.status.is_success() {
            continue;
        }
        broken += 1;
        assert_eq!((change.status.as_u16(), change.header("retry-after")), (502, "2"), "{change:?}");
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&change.body).unwrap()["error"]["code"], "bad_gateway");
    }
    assert!(broken < changes.len() + uploads.len(), "the admin that is well answers its share");
    // From now on it is known.
    let start = Instant::now();
    for _ in 0..10 {
        pair.call(Method::GET, "/me").await.ok();
        pair.call(Method::PUT, "/projects/engine/env/KEY").json(&json!({ "value": "2" })).await.ok();
    }
    assert!(start.elapsed() < GIVEN_UP / 2, "{:?}", start.elapsed());

    // The streams of the hung admin have ended, so that clients follow another; those of the other go on.
    pair.ada.create_project("second").await;
    let mut went_on = 0;
    for mut stream in streams {
        while let Some(told) = stream.next().await {
            if told.data["type"] == "project.create" && told.data["project"] == "second" {
                went_on += 1;
                break;
            }
        }
    }
    assert!((1..4).contains(&went_on), "{went_on} of 4 streams went on");

    pair.other.signal("CONT");
    pair.wait_until_both_answer().await;
}

#[tokio::test]
async fn without_an_admin_that_answers_everything_is_refused_in_time() {
    let pair = Pair::start().await;
    pair.other.signal("STOP");
    pair.world.admin.signal("STOP");
    let edge = pair.world.edge();
    let health = async || {
        let start = Instant::now();
        let answer = edge.get("https://api.svc.localhost/health").await;
        let took = start.elapsed();
        assert!(took < Duration::from_secs(2), "/health took {took:?}");
        answer.assert_body(503, r#"{"ok":false}"#);
    };
    health().await;
    let start = Instant::now();
    let (read, change) = tokio::join!(
        pair.call(Method::GET, "/me").into_future(),
        pair.call(Method::POST, "/projects").json(&json!({ "name": "engine" })).into_future()
    );
    assert!(start.elapsed() < GIVEN_UP, "{:?}", start.elapsed());
    for answer in [read, change] {
        assert_eq!(answer.header("retry-after"), "2");
        answer.assert_error(502, "bad_gateway");
    }
    health().await;
    pair.world.admin.signal("CONT");
    eventually(BACKGROUND, "the admin that is back answers", async || {
        call(edge, &pair.ada, Method::GET, "/me").await.status == 200
    })
    .await;
}
