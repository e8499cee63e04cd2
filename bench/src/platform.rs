//! The cost of a console file through an edge: cached by it, and fetched from admin each time.

use std::{fmt::Write as _, process::Command, time::Duration};

use anyhow::ensure;

use crate::{
    Effort, cpu,
    figures::{median, shown},
    wire::Connection,
    world::{Edge, Program, World, free_port},
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
struct Cost {
    edge: f64,
    admin: f64,
}

pub(crate) fn measure(world: &World, effort: Effort) -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir_all(folder.path().join("_app/immutable"))?;
    std::fs::write(folder.path().join("index.html"), "<!doctype html><title>measured</title>")?;
    std::fs::write(folder.path().join(&FILE[1..]), vec![b'x'; BYTES])?;
    let listen = format!("127.0.0.1:{}", free_port()?);
    let mut command = Command::new(World::programs()?.join("admin"));
    command
        .env("SVC_CONFIG", &world.up.config_file)
        .env("SVC__ADMIN__LISTEN", &listen)
        .env("SVC__ADMIN__CONSOLE", folder.path());
    let admin = Program::start(&command, &world.state.path().join("measured-admin.log"))?;
    let edge = world.edge_with(None, &[("SVC__EDGE__ADMIN_UPSTREAMS", listen.as_str())])?;
    let host = world.console_host();
    let mut connection = Connection::open(&world.trust, host, edge.port)?;
    let begun = std::time::Instant::now();
    while connection.request("GET", host, FILE, "")?.status != 200 {
        ensure!(begun.elapsed() < START, "admin does not serve the console");
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut costs = Vec::new();
    for path in [FILE.to_owned(), format!("{FILE}{NOT_KEPT}")] {
        let rounds: anyhow::Result<Vec<Cost>> =
            (0..effort.rounds).map(|_| round(&edge, &admin, &mut connection, host, &path)).collect();
        let rounds = rounds?;
        let part = |part: fn(&Cost) -> f64| median(&rounds.iter().map(part).collect::<Vec<_>>());
        costs.push(Cost { edge: part(|cost| cost.edge), admin: part(|cost| cost.admin) });
    }
    let mut text = format!(
        "A file of {} kB over HTTP/1.1 and TLS, on one connection. CPU a request is all of it, in microseconds; median of {} times \
         {}.\n\n| | edge | admin | requests a CPU second | × |\n|---|--:|--:|--:|--:|\n",
        BYTES / 1_000,
        effort.rounds,
        shown(f64::from(REQUESTS)),
    );
    let without = costs[1].edge + costs[1].admin;
    for (name, Cost { edge, admin }) in ["kept by the edge", "asked of admin each time"].into_iter().zip(costs) {
        let [edge_micros, admin_micros] = [edge, admin].map(|seconds| shown(seconds * 1e6));
        let (rate, ratio) = (shown(1.0 / (edge + admin)), shown(without / (edge + admin)));
        let _ = writeln!(text, "| {name} | {edge_micros} | {admin_micros} | {rate} | {ratio} |");
        eprintln!("  {name}: {rate} requests a CPU second");
    }
    Ok(text)
}

fn round(edge: &Edge, admin: &Program, connection: &mut Connection, host: &str, path: &str) -> anyhow::Result<Cost> {
    let spent = || [edge.program.id(), admin.id()].map(cpu::spent);
    let before = spent();
    for _ in 0..REQUESTS {
        ensure!(connection.get(host, path)?.len() == BYTES, "another answer than the file");
    }
    let after = spent();
    let each = |at: usize| after[at].saturating_sub(before[at]).as_secs_f64() / f64::from(REQUESTS);
    Ok(Cost { edge: each(0), admin: each(1) })
}
