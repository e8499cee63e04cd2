//! Measures the time from `POST …/activate` until three edges serve the change.

use std::{
    fmt::Write as _,
    fs,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use crate::{
    BenchEffort,
    figures::{format_number, quantile},
    wire::HttpsConnection,
    world::BenchWorld,
};

const PROJECT: &str = "flip";
/// The interval between requests to an edge: small compared to the result, yet it leaves the cores to the servers.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// The timeout until every edge serves a change; the bench then fails.
const PATIENCE: Duration = Duration::from_secs(5);

struct VersionSighting {
    edge: usize,
    version: Vec<u8>,
    at: Instant,
}

pub(crate) fn measure(world: &BenchWorld, effort: BenchEffort) -> anyhow::Result<String> {
    let versions: [&[u8]; 2] = [b"one", b"two"];
    let deployments = versions.map(|version| publish(world, version));
    let [one, two] = deployments;
    let deployments = [one?, two?];
    let beside = [world.edge(None)?, world.edge(None)?];
    let ports = [world.up.https_port, beside[0].port, beside[1].port];
    let host = world.host(PROJECT);
    let stop = AtomicBool::new(false);
    let (tell, sightings) = mpsc::channel();

    thread::scope(|scope| {
        for (edge, port) in ports.into_iter().enumerate() {
            let (tell, host, stop) = (tell.clone(), &host, &stop);
            scope.spawn(move || watch(world, host, edge, port, &tell, stop));
        }
        let outcome = flip(world, &deployments, versions, &sightings, effort);
        stop.store(true, Ordering::Relaxed);
        outcome
    })
}

/// Activates the two deployments in turn, waiting each time until every edge serves the active one.
fn flip(
    world: &BenchWorld,
    deployments: &[String; 2],
    versions: [&[u8]; 2],
    sightings: &mpsc::Receiver<VersionSighting>,
    effort: BenchEffort,
) -> anyhow::Result<String> {
    let mut api = world.api()?;
    let (mut visible, mut answered, mut receipts) = (Vec::new(), Vec::new(), 0);
    for round in 0..effort.activations {
        // The second was deployed last, so the first activation is of the first.
        let which = round % 2;
        let start = Instant::now();
        let path = format!("/projects/{PROJECT}/deployments/{}/activate", deployments[which]);
        let answer = world.call(&mut api, "POST", &path)?;
        answered.push(start.elapsed().as_secs_f64() * 1e3);
        receipts += usize::from(answer.header("x-svc-propagation").is_some_and(|receipt| receipt.starts_with("3/3")));
        let mut seen = [false; 3];
        let mut last = start;
        while seen != [true; 3] {
            let sighting = sightings.recv_timeout(PATIENCE).context("an edge did not show the change")?;
            if sighting.version == versions[which] && sighting.at >= start {
                seen[sighting.edge] = true;
                last = last.max(sighting.at);
            }
        }
        visible.push((last - start).as_secs_f64() * 1e3);
    }
    let mut text = format!(
        "{} activations on 3 edges, each watched by a connection that asks every {} ms. From sending `POST …/activate`; \
         {receipts} answers said `3/3`.\n\n| ms | p50 | p99 | slowest |\n|---|--:|--:|--:|\n",
        effort.activations,
        LOOK_EVERY.as_millis()
    );
    for (name, times) in [("visible on all 3 edges", &visible), ("the API has answered", &answered)] {
        let at = |share| format_number(quantile(times, share));
        let _ = writeln!(text, "| {name} | {} | {} | {} |", at(0.5), at(0.99), at(1.0));
        eprintln!("  {name}: p50 {} ms, p99 {} ms", at(0.5), at(0.99));
    }
    Ok(text)
}

fn watch(
    world: &BenchWorld,
    host: &str,
    edge: usize,
    port: u16,
    tell: &mpsc::Sender<VersionSighting>,
    stop: &AtomicBool,
) {
    let mut last = Vec::new();
    let Ok(mut connection) = HttpsConnection::open(&world.trust, host, port) else { return };
    while !stop.load(Ordering::Relaxed) {
        let Ok(version) = connection.get(host, "/version.txt") else { return };
        if version != last {
            last.clone_from(&version);
            if tell.send(VersionSighting { edge, version, at: Instant::now() }).is_err() {
                return;
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn publish(world: &BenchWorld, version: &[u8]) -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("version.txt"), version)?;
    world.svc(&["deploy", &folder.path().display().to_string(), "--project", PROJECT])?;
    let project = world.call(&mut world.api()?, "GET", &format!("/projects/{PROJECT}"))?.json()?;
    let active = project["active_deployment_id"].as_str().context("no active deployment")?;
    ensure!(active.starts_with("dep_"), "an odd deployment id: {active}");
    Ok(active.to_owned())
}
