//! A change is done when every edge has it: after the API has answered, no edge serves the old state.

use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::json;

use crate::{
    BACKGROUND,
    world::{Actor, Builder, Edge, Site, World, actor::Uploaded, eventually},
};

/// The contract's own bound on an answer while an edge is dead.
const PROMISED: Duration = Duration::from_secs(2);

/// Three edges that admin knows of, and `engine` with two deployments.
async fn three_edges() -> (World, Actor, [Uploaded; 2]) {
    three_edges_of(World::builder()).await
}

/// What [`three_edges`] are, in a world that is configured otherwise.
pub(crate) async fn three_edges_of(builder: Builder) -> (World, Actor, [Uploaded; 2]) {
    let world = builder.edges(3).start().await;
    let ada = world.user("ada").await;
    let one = ada.publish("engine", &Site::page("one")).await;
    let two = ada.deploy("engine", &Site::page("two")).await;
    eventually(BACKGROUND, "admin has heard of every edge", async || propagation(&ada, &one).await.starts_with("3/3"))
        .await;
    (world, ada, [one, two])
}

pub(crate) async fn propagation(ada: &Actor, deployment: &Uploaded) -> String {
    ada.activate("engine", &deployment.id).await.assert_status(200).header("x-svc-propagation").to_owned()
}

/// What every edge answers at `url`, asked at once.
async fn seen(world: &World, url: &str) -> Vec<(StatusCode, String)> {
    seen_at(&world.edges, url).await
}

/// What each of `edges` answers at `url`, asked at once.
pub(crate) async fn seen_at(edges: &[Edge], url: &str) -> Vec<(StatusCode, String)> {
    join_all(edges.iter().map(async |edge| {
        let answer = edge.get(url).await;
        (answer.status, answer.text())
    }))
    .await
}

#[track_caller]
pub(crate) fn assert_all(seen: &[(StatusCode, String)], status: u16, body: Option<&str>) {
    for (index, (found, text)) in seen.iter().enumerate() {
        assert_eq!(found.as_u16(), status, "edge {index}: {text}");
        if let Some(body) = body {
            assert_eq!(text, body, "edge {index}");
        }
    }
}

#[tokio::test]
async fn no_edge_serves_the_old_deployment_after_the_answer() {
    let (world, ada, deployments) = three_edges().await;
    for round in 0..40 {
        let deployment = &deployments[round % 2];
        let receipt = propagation(&ada, deployment).await;
        assert_all(&seen(&world, &deployment.url).await, 200, Some(["one", "two"][round % 2]));
        assert!(receipt.starts_with("3/3; ") && receipt.ends_with("ms"), "{receipt}");
    }
}

#[tokio::test]
async fn an_edge_is_waited_for_from_its_first_answer_on() {
    let (mut world, ada, deployments) = three_edges().await;
    for round in 0..4 {
        world.edges[0].process.kill();
        world.restart_edge(0).await;
        assert_all(&seen(&world, &deployments[0].url).await, 200, None);
        let deployment = &deployments[round % 2];
        propagation(&ada, deployment).await;
        assert_all(&seen(&world, &deployment.url).await, 200, Some(["one", "two"][round % 2]));
    }
}

#[tokio::test]
async fn no_edge_serves_the_old_deployment_under_load() {
    let (world, ada, deployments) = three_edges().await;
    let done = AtomicBool::new(false);
    let requests = AtomicU32::new(0);
    let load = join_all(world.edges.iter().flat_map(|edge| [edge, edge]).map(async |edge| {
        while !done.load(Ordering::Relaxed) {
            let answer = edge.get(&deployments[0].url).await.assert_status(200);
            assert!(["one", "two"].contains(&answer.text().as_str()));
            requests.fetch_add(1, Ordering::Relaxed);
        }
    }));
    let changes = async {
        for round in 0..30 {
            let deployment = &deployments[round % 2];
            propagation(&ada, deployment).await;
            assert_all(&seen(&world, &deployment.url).await, 200, Some(["one", "two"][round % 2]));
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(load, changes);
    assert!(requests.load(Ordering::Relaxed) > 0);
}

#[tokio::test]
async fn an_upload_a_gate_and_a_removal_reach_every_edge() {
    let (world, ada, [one, _two]) = three_edges().await;
    let url = &one.url;
    for number in 0..5 {
        let text = number.to_string();
        let upload = ada.deploy("engine", &Site::page(&text)).await;
        assert!(upload.propagation.starts_with("3/3"), "{}", upload.propagation);
        assert_all(&seen(&world, url).await, 200, Some(&text));
    }
    for _ in 0..5 {
        ada.put("/projects/engine/password").json(&json!({ "password": "hunter22" })).await.ok();
        assert_all(&seen(&world, url).await, 401, None);
        ada.put("/projects/engine/access").json(&json!({ "mode": "public" })).await.ok();
        assert_all(&seen(&world, url).await, 200, Some("4"));
    }
    assert_all(&seen(&world, &one.permanent_url()).await, 200, Some("one"));
    ada.delete(&format!("/projects/engine/deployments/{}", one.id)).await.ok();
    assert_all(&seen(&world, &one.permanent_url()).await, 404, None);

    let share = ada.share(&Site::page("look"), 1).await;
    assert_all(&seen(&world, &share.url).await, 200, Some("look"));
    ada.delete(&format!("/shares/{}", share.share_name())).await.ok();
    assert_all(&seen(&world, &share.url).await, 404, None);

    ada.delete("/projects/engine").await.ok();
    assert_all(&seen(&world, url).await, 404, None);
    ada.publish("engine", &Site::page("anew")).await;
    assert_all(&seen(&world, url).await, 200, Some("anew"));
}

#[tokio::test]
async fn a_dead_edge_holds_nobody_up() {
    let (mut world, ada, deployments) = three_edges().await;
    world.edges[2].process.kill();
    let started = Instant::now();
    let receipt = propagation(&ada, &deployments[1]).await;
    let took = started.elapsed();
    assert!(took < PROMISED, "answered after {took:?}");
    assert!(receipt.starts_with("2/3; "), "{receipt}");
    world.edges.truncate(2);
    assert_all(&seen(&world, &deployments[1].url).await, 200, Some("two"));
}

#[tokio::test]
async fn a_stopped_edge_takes_its_leave() {
    let (mut world, ada, deployments) = three_edges().await;
    let status = world.edges[2].process.stop();
    assert!(status.success(), "{status}");
    let receipt = propagation(&ada, &deployments[1]).await;
    assert!(receipt.starts_with("2/2; "), "{receipt}");
}

#[tokio::test]
async fn a_restarted_edge_knows_the_present() {
    let (mut world, ada, deployments) = three_edges().await;
    world.edges[2].process.kill();
    propagation(&ada, &deployments[1]).await;
    world.restart_edge(2).await;
    assert_all(&seen(&world, &deployments[1].url).await, 200, Some("two"));
    eventually(BACKGROUND, "the new edge is counted, the dead one is not", async || {
        propagation(&ada, &deployments[0]).await.starts_with("3/3")
    })
    .await;
}

#[tokio::test]
async fn flushing_redis_under_load_fails_no_request() {
    let (world, ada, deployments) = three_edges().await;
    let done = AtomicBool::new(false);
    let visits: [AtomicU32; 3] = Default::default();
    let load = join_all(world.edges.iter().zip(&visits).map(async |(edge, visits)| {
        while !done.load(Ordering::Relaxed) {
            edge.get(&deployments[0].url).await.assert_status(200);
            visits.fetch_add(1, Ordering::Relaxed);
        }
    }));
    let counts = || visits.each_ref().map(|visits| visits.load(Ordering::Relaxed));
    let flushes = async {
        for round in 0..10 {
            world.redis_command("FLUSHALL").await;
            propagation(&ada, &deployments[round % 2]).await;
            assert_all(&seen(&world, &deployments[0].url).await, 200, Some(["one", "two"][round % 2]));
            let before = counts();
            eventually(BACKGROUND, "every edge is visited ten times", async || {
                counts().iter().zip(before).all(|(now, before)| *now >= before + 10)
            })
            .await;
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(load, flushes);
}

#[tokio::test]
async fn sites_outlive_redis_and_changes_arrive_without_it() {
    let (mut world, ada, deployments) = three_edges().await;
    assert_all(&seen(&world, &deployments[0].url).await, 200, Some("one"));
    world.redis.kill();
    assert_all(&seen(&world, &deployments[0].url).await, 200, Some("one"));
    // The database's own truth reaches the edges without Redis.
    ada.activate("engine", &deployments[1].id).await.assert_status(200);
    eventually(BACKGROUND, "every edge asks Postgres", async || {
        seen(&world, &deployments[0].url).await.iter().all(|(_, text)| text == "two")
    })
    .await;
    world.restart_redis();
    eventually(BACKGROUND, "every edge is back", async || {
        let answer = ada.activate("engine", &deployments[0].id).await;
        answer.status == 200 && answer.header("x-svc-propagation").starts_with("3/3")
    })
    .await;
    for round in 0..6 {
        propagation(&ada, &deployments[round % 2]).await;
        assert_all(&seen(&world, &deployments[0].url).await, 200, Some(["one", "two"][round % 2]));
    }
}

#[tokio::test]
async fn warm_sites_outlive_postgres() {
    let (world, ada, deployments) = three_edges().await;
    assert_all(&seen(&world, &deployments[0].url).await, 200, Some("one"));
    world.stop_postgres().await;
    for _ in 0..20 {
        assert_all(&seen(&world, &deployments[0].url).await, 200, Some("one"));
    }
    let cold = world.edge().get(&world.site_url("never-seen")).await;
    assert_eq!(cold.status, 503, "an edge that cannot know says so");
    ada.get("/me").await.assert_error(503, "busy");
    world.start_postgres().await;
    eventually(BACKGROUND, "admin is back", async || ada.get("/me").await.status == 200).await;
    propagation(&ada, &deployments[1]).await;
    assert_all(&seen(&world, &deployments[0].url).await, 200, Some("two"));
    eventually(BACKGROUND, "the edge knows again what is not there", async || {
        world.edge().get(&world.site_url("never-seen")).await.status == 404
    })
    .await;
}

#[tokio::test]
async fn warm_sites_outlive_everything() {
    let (mut world, _, deployments) = three_edges().await;
    assert_all(&seen(&world, &deployments[0].url).await, 200, Some("one"));
    world.redis.kill();
    world.admin.kill();
    world.stop_postgres().await;
    std::fs::rename(world.folder().join("store"), world.folder().join("store-gone")).unwrap();
    // Each edge asks Postgres what it missed, in vain, and again.
    let asked_in_vain = "Postgres cannot be asked for route changes";
    eventually(BACKGROUND, "every edge has asked three times", async || {
        assert_all(&seen(&world, &deployments[0].url).await, 200, Some("one"));
        world.edges.iter().all(|edge| edge.process.log().matches(asked_in_vain).count() >= 3)
    })
    .await;
    assert_all(&seen(&world, &deployments[0].url).await, 200, Some("one"));
}

#[tokio::test]
async fn a_change_that_was_never_published_is_published_later() {
    let (world, _, deployments) = three_edges().await;
    assert_all(&seen(&world, &deployments[0].url).await, 200, Some("one"));
    // What a program of the version before leaves behind that ends between commit and publication.
    world
        .sql(&format!(
            "BEGIN;
             UPDATE deployments SET status = 'superseded', superseded_at = now() WHERE id = '{0}';
             UPDATE deployments SET status = 'live', superseded_at = NULL WHERE id = '{1}';
             UPDATE projects SET active_deployment_id = '{1}';
             INSERT INTO route_changes (seq, subject, hosts, created_at)
                 SELECT c.last_seq + 1, p.id, '{{}}', now() FROM route_counter c, projects p;
             UPDATE route_counter SET last_seq = last_seq + 1;
             COMMIT",
            deployments[0].id, deployments[1].id
        ))
        .await;
    eventually(BACKGROUND, "every edge has the change", async || {
        seen(&world, &deployments[0].url).await.iter().all(|(_, text)| text == "two")
    })
    .await;
}

#[tokio::test]
async fn a_change_of_a_newer_version_holds_nothing_up() {
    let (world, _, deployments) = three_edges().await;
    assert_all(&seen(&world, &deployments[0].url).await, 200, Some("one"));
    // Of a kind that these programs do not know, and behind it one that they do. Their program ended after the commit: they have no
    // numbers, and nobody has sent them.
    world
        .sql(&format!(
            "BEGIN;
             INSERT INTO pending_route_changes (subject, hosts, created_at)
                 VALUES ('rgn_0123456789abcdefghij', '{{}}', now());
             UPDATE deployments SET status = 'superseded', superseded_at = now() WHERE id = '{0}';
             UPDATE deployments SET status = 'live', superseded_at = NULL WHERE id = '{1}';
             UPDATE projects SET active_deployment_id = '{1}';
             INSERT INTO pending_route_changes (subject, hosts, created_at) SELECT p.id, '{{}}', now() FROM projects p;
             COMMIT",
            deployments[0].id, deployments[1].id
        ))
        .await;
    eventually(BACKGROUND, "both have numbers and are sent", async || {
        let sent =
            "SELECT count(*) FROM route_changes, route_counter WHERE seq > last_seq - 2 AND published_at IS NOT NULL
                    AND pending_id IS NOT NULL AND NOT EXISTS (SELECT FROM pending_route_changes)";
        world.sql_number(sent).await == 2
    })
    .await;
    eventually(BACKGROUND, "every edge has the change behind it", async || {
        seen(&world, &deployments[0].url).await.iter().all(|(_, text)| text == "two")
    })
    .await;
    for edge in &world.edges {
        let log = edge.process.log();
        assert!(!log.contains("ERROR") && !log.contains("forgetting"), "{log}");
    }
    let log = world.admin.log();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
}

/// Changes in flight at the same time, as many a second as operators have met; `SVC_TEST_CHANGES` has it make more of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the figures are what a person runs it for")]
async fn receipts_do_not_wait_for_looks_under_many_changes() {
    let (_world, ada, _) = three_edges().await;
    let count = std::env::var("SVC_TEST_CHANGES").map_or(200, |text| text.parse().unwrap());
    let mut every = tokio::time::interval(Duration::from_millis(33));
    let (mut changes, mut busy) = (Vec::new(), Vec::new());
    for number in 0..8 {
        busy.push(ada.publish(&format!("busy{number}"), &Site::page("busy")).await.id);
    }
    for number in 0..count {
        every.tick().await;
        let (ada, number) = (ada.clone(), number % busy.len());
        let deployment = busy[number].clone();
        changes.push(tokio::spawn(async move {
            let started = Instant::now();
            let answer = ada.activate(&format!("busy{number}"), &deployment).await;
            (started.elapsed(), answer.header("x-svc-propagation").to_owned())
        }));
    }
    let mut taken = Vec::new();
    for change in changes {
        let (took, receipt): (Duration, String) = change.await.unwrap();
        assert!(receipt.starts_with("3/3"), "{receipt}");
        taken.push((took, receipt[5..].trim_end_matches("ms").trim().parse::<u64>().unwrap()));
    }
    let mut answers: Vec<_> = taken.iter().map(|(took, _)| took.as_millis()).collect();
    let mut waits: Vec<_> = taken.iter().map(|(_, wait)| *wait).collect();
    answers.sort_unstable();
    waits.sort_unstable();
    let at = |percent: usize| (taken.len() * percent / 100).min(taken.len() - 1);
    println!(
        "{count} changes: answers p50 {} p99 {} most {} ms; receipts p50 {} p99 {} most {} ms",
        answers[at(50)],
        answers[at(99)],
        answers[at(100)],
        waits[at(50)],
        waits[at(99)],
        waits[at(100)]
    );
}
