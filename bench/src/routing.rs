//! What an edge's memory of routes costs: bytes a site, and the time of a look-up as sites grow.

use std::{fmt::Write as _, process::Command};

use anyhow::{Context as _, ensure};

use crate::{
    Effort, cpu,
    figures::shown,
    wire::Connection,
    world::{Edge, World},
};

/// Whose deployment all the made-up sites serve.
const PROJECT: &str = "routed";
/// Requests over which a look-up is timed.
const LOOKUPS: u32 = 20_000;

pub(crate) fn measure(world: &World, effort: Effort) -> anyhow::Result<String> {
    let most = effort.sites.iter().copied().max().unwrap_or_default();
    make_sites(world, most)?;
    let edge = world.edge(None)?;
    let mut connection = Connection::open(&world.trust, &world.host(PROJECT), edge.port)?;
    connection.get(&world.host(PROJECT), "/")?;
    let empty = cpu::resident(edge.program.id());
    let mut text = String::from(
        "One edge process that is asked for every site once, then at random. CPU a request is all of it: TLS records, HTTP, \
         look-up, answer.\n\n| sites routed | resident MB | bytes a site | CPU µs a request |\n|--:|--:|--:|--:|\n",
    );
    let mut routed = 0;
    for &sites in effort.sites {
        for site in routed..sites {
            connection.get(&host(world, site), "/")?;
        }
        routed = sites;
        let micros = lookup_cost(world, &edge, &mut connection, sites)?;
        let resident = cpu::resident(edge.program.id());
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            shown(f64::from(sites)),
            shown(resident / 1e6),
            shown((resident - empty) / f64::from(sites)),
            shown(micros)
        );
        eprintln!(
            "  {sites} sites: {} bytes each, {} µs a request",
            shown((resident - empty) / f64::from(sites)),
            shown(micros)
        );
    }
    Ok(text)
}

fn lookup_cost(world: &World, edge: &Edge, connection: &mut Connection, sites: u32) -> anyhow::Result<f64> {
    let before = cpu::spent(edge.program.id());
    // A fixed stride through all of them: no two neighbours, the same every time.
    let mut site = 0;
    for _ in 0..LOOKUPS {
        site = (site + 7_919) % sites;
        connection.get(&host(world, site), "/")?;
    }
    let spent = cpu::spent(edge.program.id()).saturating_sub(before);
    Ok(spent.as_secs_f64() * 1e6 / f64::from(LOOKUPS))
}

fn host(world: &World, site: u32) -> String {
    world.host(&format!("routed-{site:06}"))
}

/// Writes the projects into the database as if each had been created: all serve one deployment.
fn make_sites(world: &World, sites: u32) -> anyhow::Result<()> {
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
