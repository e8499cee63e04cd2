//! The cost of an edge's routes: bytes per site, and the time of a lookup as the number of sites grows.

use std::{fmt::Write as _, process::Command};

use anyhow::{Context as _, ensure};

use crate::{
    BenchEffort, cpu,
    figures::{format_number, median},
    wire::HttpsConnection,
    world::{BenchWorld, EdgeProcess},
};

/// The project whose deployment all generated sites serve.
const PROJECT: &str = "routed";
/// The number of requests over which a lookup is timed, and the number of repetitions.
const LOOKUPS: u32 = 10_000;
const ROUNDS: usize = 5;

pub(crate) fn measure(world: &BenchWorld, effort: BenchEffort) -> anyhow::Result<String> {
    let most = effort.sites.iter().copied().max().unwrap_or_default();
    make_sites(world, most)?;
    let edge = world.edge(None)?;
    let mut connection = HttpsConnection::open(&world.trust, &world.host(PROJECT), edge.port)?;
    connection.get(&world.host(PROJECT), "/")?;
    let mut text = String::from(
        "One edge process that is asked for every site once, then at random. Bytes a site are those of the sites added since the \
         row above. CPU a request is all of it: TLS records, HTTP, look-up, answer; median of 5 times 10,000.\n\n\
         | sites routed | resident MB | bytes a site | CPU µs a request |\n|--:|--:|--:|--:|\n",
    );
    let (mut routed, mut before) = (0, 0.0);
    for &sites in effort.sites {
        for site in routed..sites {
            connection.get(&host(world, site), "/")?;
        }
        let rounds: anyhow::Result<Vec<f64>> =
            (0..ROUNDS).map(|_| lookup_cost(world, &edge, &mut connection, sites)).collect();
        let micros = format_number(median(&rounds?));
        let resident = cpu::resident(edge.program.id());
        // The first sites include buffers and one-time allocations: only growth is meaningful.
        let each = match routed {
            0 => "–".to_owned(),
            _ => format_number((resident - before) / f64::from(sites - routed)),
        };
        (routed, before) = (sites, resident);
        let count = format_number(f64::from(sites));
        let _ = writeln!(text, "| {count} | {} | {each} | {micros} |", format_number(resident / 1e6));
        eprintln!("  {count} sites: {each} bytes each, {micros} µs a request");
    }
    Ok(text)
}

fn lookup_cost(
    world: &BenchWorld,
    edge: &EdgeProcess,
    connection: &mut HttpsConnection,
    sites: u32,
) -> anyhow::Result<f64> {
    let before = cpu::spent(edge.program.id());
    // A fixed stride through all sites: no two neighbors in a row, and the same order every time.
    let mut site = 0;
    for _ in 0..LOOKUPS {
        site = (site + 7_919) % sites;
        connection.get(&host(world, site), "/")?;
    }
    let spent = cpu::spent(edge.program.id()).saturating_sub(before);
    Ok(spent.as_secs_f64() * 1e6 / f64::from(LOOKUPS))
}

fn host(world: &BenchWorld, site: u32) -> String {
    world.host(&format!("routed-{site:06}"))
}

/// Writes the projects into the database as if each had been created: all serve one deployment.
fn make_sites(world: &BenchWorld, sites: u32) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("index.html"), "<!doctype html><title>routed</title>")?;
    world.svc(&["deploy", &folder.path().display().to_string(), "--project", PROJECT])?;
    let output = Command::new("psql")
        .arg(&world.up.postgres_url)
        .args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", &format!("--set=sites={sites}")])
        .args(["--set", &format!("project={PROJECT}"), "--file=bench/peers/sites.sql"])
        .output()
        .context("psql")?;
    ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
