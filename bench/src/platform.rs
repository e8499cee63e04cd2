//! The cost of a console file through an edge: cached by it, and fetched from admin each time.

use std::{fmt::Write as _, process::Command, time::Duration};

use anyhow::ensure;

use crate::{
    BenchEffort, cpu,
    figures::{format_number, median},
    wire::HttpsConnection,
    world::{BenchWorld, EdgeProcess, RunningProgram, free_port},
};

/// A file of the console, and its size.
const FILE: &str = "/_app/immutable/measured.0a1b2c3d.js";
const BYTES: usize = 40_000;
/// A query that makes the edge bypass its cache; admin ignores it.
const NOT_KEPT: &str = "?";
const START: Duration = Duration::from_secs(30);
const REQUESTS: u32 = 2_000;

/// The CPU time of a request, in seconds.
#[derive(Clone, Copy)]
struct RequestCost {
    edge: f64,
    admin: f64,
}

pub(crate) fn measure(world: &BenchWorld, effort: BenchEffort) -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir_all(folder.path().join("_app/immutable"))?;
    std::fs::write(folder.path().join("index.html"), "<!doctype html><title>measured</title>")?;
    std::fs::write(folder.path().join(&FILE[1..]), vec![b'x'; BYTES])?;
    let listen = format!("127.0.0.1:{}", free_port()?);
    let mut command = Command::new(BenchWorld::programs()?.join("admin"));
    command
        .env("SVC_CONFIG", &world.up.config_file)
        .env("SVC__ADMIN__LISTEN", &listen)
        .env("SVC__ADMIN__CONSOLE", folder.path());
    let admin = RunningProgram::start(&command, &world.state.path().join("measured-admin.log"))?;
    let edge = world.edge_with(None, &[("SVC__EDGE__ADMIN_UPSTREAMS", listen.as_str())])?;
    let host = world.console_host();
    let mut connection = HttpsConnection::open(&world.trust, host, edge.port)?;
    let begun = std::time::Instant::now();
    while connection.request("GET", host, FILE, "")?.status != 200 {
        ensure!(begun.elapsed() < START, "admin does not serve the console");
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut costs = Vec::new();
    for path in [FILE.to_owned(), format!("{FILE}{NOT_KEPT}")] {
        let rounds: anyhow::Result<Vec<RequestCost>> =
            (0..effort.rounds).map(|_| round(&edge, &admin, &mut connection, host, &path)).collect();
        let rounds = rounds?;
        let part = |part: fn(&RequestCost) -> f64| median(&rounds.iter().map(part).collect::<Vec<_>>());
        costs.push(RequestCost { edge: part(|cost| cost.edge), admin: part(|cost| cost.admin) });
    }
    let mut text = format!(
        "A file of {} kB over HTTP/1.1 and TLS, on one connection. CPU a request is all of it, in microseconds; median of {} times \
         {}.\n\n| | edge | admin | requests a CPU second | × |\n|---|--:|--:|--:|--:|\n",
        BYTES / 1_000,
        effort.rounds,
        format_number(f64::from(REQUESTS)),
    );
    let without = costs[1].edge + costs[1].admin;
    for (name, RequestCost { edge, admin }) in ["kept by the edge", "asked of admin each time"].into_iter().zip(costs) {
        let [edge_micros, admin_micros] = [edge, admin].map(|seconds| format_number(seconds * 1e6));
        let (rate, ratio) = (format_number(1.0 / (edge + admin)), format_number(without / (edge + admin)));
        let _ = writeln!(text, "| {name} | {edge_micros} | {admin_micros} | {rate} | {ratio} |");
        eprintln!("  {name}: {rate} requests a CPU second");
    }
    Ok(text)
}

fn round(
    edge: &EdgeProcess,
    admin: &RunningProgram,
    connection: &mut HttpsConnection,
    host: &str,
    path: &str,
) -> anyhow::Result<RequestCost> {
    let spent = || [edge.program.id(), admin.id()].map(cpu::spent);
    let before = spent();
    for _ in 0..REQUESTS {
        ensure!(connection.get(host, path)?.len() == BYTES, "another answer than the file");
    }
    let after = spent();
    let each = |at: usize| after[at].saturating_sub(before[at]).as_secs_f64() / f64::from(REQUESTS);
    Ok(RequestCost { edge: each(0), admin: each(1) })
}
