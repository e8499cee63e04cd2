//! Admins that are stopped, and others that take their place.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, future::join_all, stream};
use reqwest::Method;
use serde_json::json;

use super::{Pair, call};
use crate::{
    BACKGROUND,
    world::{Site, World, eventually, site::noise},
};

/// How often an admin is stopped under calls, unless `SVC_TEST_RESTARTS` says otherwise.
const ROUNDS: usize = 2;
/// Calls that are made at the same time.
const CALLERS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_one_of_two_admins_restarts() {
    let rounds = std::env::var("SVC_TEST_RESTARTS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let mut pair = Pair::start().await;
    pair.ada.create_project("engine").await;
    let large = Arc::new(Site::new().file("film.bin", noise(100_000)).tarball());
    let (made, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for round in 0..rounds {
        let (edge, ada, stopped) = (pair.world.edge(), &pair.ada, AtomicBool::new(false));
        let browser = edge.another_browser(round % 2 == 0);
        let callers = join_all((0..CALLERS).map(|caller| {
            let (browser, large, stopped, made, answered) = (&browser, &large, &stopped, &made, &answered);
            async move {
                let mut failed = Vec::new();
                while !stopped.load(Ordering::Relaxed) {
                    let number = made.fetch_add(1, Ordering::Relaxed);
                    let (method, path) = match number % 4 {
                        0 => (Method::PUT, format!("/projects/engine/env/KEY_{}", number % 100)),
                        1 => (Method::POST, "/projects".to_owned()),
                        2 if caller < 2 => (Method::POST, "/shares".to_owned()),
                        _ => (Method::GET, "/me".to_owned()),
                    };
                    let url = edge.address(&format!("https://api.svc.localhost{path}"));
                    let request = browser.request(method.clone(), url).bearer_auth(ada.token.as_deref().unwrap());
                    let request = match path.as_str() {
                        "/shares" => request.header("content-type", "application/gzip").body(large.to_vec()),
                        "/projects" => request.json(&json!({ "name": format!("engine-{number}") })),
                        "/me" => request,
                        _ => request.json(&json!({ "value": "1" })),
                    };
                    match request.send().await {
                        Ok(answer) if answer.status().is_success() => {
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(answer) => failed.push(format!("{method} {path}: {}", answer.status())),
                        Err(error) => failed.push(format!("{method} {path}: {error:?}")),
                    }
                }
                failed
            }
        }));
        let other = &mut pair.other;
        let stopping = async {
            let before = answered.load(Ordering::Relaxed);
            eventually(BACKGROUND, "calls are under way", async || answered.load(Ordering::Relaxed) > before + 40)
                .await;
            other.signal("TERM");
            let mut status = None;
            eventually(BACKGROUND, "the admin ends", async || {
                status = other.ended();
                status.is_some()
            })
            .await;
            assert!(status.unwrap().success(), "{status:?}");
            let before = answered.load(Ordering::Relaxed);
            eventually(BACKGROUND, "calls go on", async || answered.load(Ordering::Relaxed) > before + 20).await;
            stopped.store(true, Ordering::Relaxed);
        };
        let (failed, ()) = tokio::join!(callers, stopping);
        let failed: Vec<_> = failed.into_iter().flatten().collect();
        assert!(failed.is_empty(), "of {} calls: {failed:#?}", made.load(Ordering::Relaxed));
        pair.other = pair.world.start_admin_at(pair.other_port);
        pair.wait_until_both_answer().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_outlives_the_stop_of_its_admin_while_the_next_one_answers() {
    // Longer than other requests have.
    const LONG: Duration = Duration::from_secs(28);
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let tarball = Site::page("slow").file("film.bin", noise(400_000)).tarball();
    let (to_be_sent, chunks) = tokio::sync::mpsc::channel::<std::io::Result<Vec<u8>>>(1);
    let chunks = stream::unfold(chunks, |mut chunks| async move { chunks.recv().await.map(|chunk| (chunk, chunks)) });
    let upload = call(world.edge(), &ada, Method::POST, "/projects/engine/deployments")
        .upload(reqwest::Body::wrap_stream(chunks.boxed()));
    let upload = tokio::spawn(upload.into_future());
    let mut pieces = tarball.chunks(2_000);
    to_be_sent.send(Ok(pieces.next().unwrap().to_vec())).await.unwrap();
    let begun = async || world.sql_number("SELECT count(*) FROM deployments WHERE status = 'uploading'").await == 1;
    // The body has no length, so the edge hands it on once it has a part of it.
    for piece in pieces.by_ref().take(40) {
        to_be_sent.send(Ok(piece.to_vec())).await.unwrap();
    }
    eventually(BACKGROUND, "the upload has begun", begun).await;

    world.admin.signal("TERM");
    let next = world.start_admin_at(world.admin_port);
    let mut former = std::mem::replace(&mut world.admin, next);
    let start = Instant::now();
    let mut every = tokio::time::interval(Duration::from_millis(250));
    while start.elapsed() < LONG {
        every.tick().await;
        if let Some(piece) = pieces.next() {
            to_be_sent.send(Ok(piece.to_vec())).await.unwrap();
        }
        call(world.edge(), &ada, Method::GET, "/me").await.ok();
    }
    for piece in pieces {
        to_be_sent.send(Ok(piece.to_vec())).await.unwrap();
    }
    drop(to_be_sent);
    upload.await.unwrap().created();
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "slow");
    let status = tokio::task::block_in_place(|| former.wait());
    assert!(status.success(), "{status}");
}
