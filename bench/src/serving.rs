//! Serves the same files over TLS from every server. Measures requests per CPU second, wall clock and p99.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use config::Config;
use secrets::MasterKey;

use crate::{
    BenchEffort, cpu,
    figures::{format_number, format_rounds, median, uneven_rounds},
    load::{self, LoadResult, LoadTarget},
    machine::Machine,
    peers::{self, PeerServer, ServerSetup},
    ranges::{RatioMap, RatioRanges},
    world::BenchWorld,
};

const SERVER_CORE: u32 = 0;
const LOAD_CORE: u32 = 1;
const PROJECT: &str = "bench";
/// The index of nginx with its file cache among the servers.
const NGINX: usize = 1;
const FILES: [(&str, &str, usize); 4] = [
    ("1 KB", "1k.bin", 1 << 10),
    ("10 KB", "10k.bin", 10 << 10),
    ("100 KB", "100k.bin", 100 << 10),
    ("1 MB", "1m.bin", 1 << 20),
];

#[derive(Clone, Copy)]
enum ScenarioKind {
    H1,
    H2,
    Handshakes,
}

struct Scenario {
    name: String,
    kind: ScenarioKind,
    path: &'static str,
    rounds: Vec<Vec<RoundFigures>>,
}

struct RoundFigures {
    per_cpu_second: f64,
    per_second: f64,
    p99_ms: f64,
}

pub(crate) fn measure(world: &BenchWorld, machine: &Machine, effort: BenchEffort) -> anyhow::Result<String> {
    let (files, work) = (publish(world)?, tempfile::tempdir()?);
    let (certificate, key) = leaf(world, work.path())?;
    let host = world.host(PROJECT);
    let setting = ServerSetup {
        folder: work.path().to_path_buf(),
        files: files.path().to_path_buf(),
        host: host.clone(),
        certificate,
        key,
        core: SERVER_CORE,
    };
    let edge = world.edge(Some(SERVER_CORE))?;
    let mut servers = vec![PeerServer { name: "svc", port: edge.port, program: edge.program }];
    servers.extend(peers::start(&setting)?);

    let mut scenarios = scenarios(servers.len());
    for scenario in &mut scenarios {
        for round in 0..effort.rounds {
            for (server, rounds) in servers.iter().zip(&mut scenario.rounds) {
                let target = LoadTarget { host: &host, port: server.port, path: scenario.path, core: LOAD_CORE };
                let run = |seconds| scenario.kind.run(&target, seconds, world, work.path());
                if round == 0 {
                    run(1).with_context(|| format!("{}, {}", server.name, scenario.name))?;
                }
                rounds.push(RoundFigures::measured(server, || run(effort.seconds))?);
            }
        }
        eprintln!("  {}: {}", scenario.name, scenario.line());
    }
    let ratios: RatioMap = scenarios.iter().map(|scenario| (scenario.name.clone(), scenario.ratio_to(NGINX))).collect();
    let ranges = RatioRanges::with("serving", machine, ratios, effort.is_kept)?;
    let names: Vec<&str> = servers.iter().map(|server| server.name).collect();
    Ok(report(&scenarios, &names, &ranges, effort))
}

/// Runs the load of every scenario on an edge, for `seconds` each.
pub(crate) fn train(world: &BenchWorld, seconds: u32) -> anyhow::Result<()> {
    let (_files, work) = (publish(world)?, tempfile::tempdir()?);
    let (host, edge) = (world.host(PROJECT), world.edge(Some(SERVER_CORE))?);
    for Scenario { name, kind, path, .. } in scenarios(0) {
        let target = LoadTarget { host: &host, port: edge.port, path, core: LOAD_CORE };
        kind.run(&target, seconds, world, work.path()).with_context(|| name)?;
    }
    Ok(())
}

fn publish(world: &BenchWorld) -> anyhow::Result<tempfile::TempDir> {
    let files = tempfile::tempdir()?;
    for (_, name, size) in FILES {
        fs::write(files.path().join(name), random_bytes(size)?)?;
    }
    world.svc(&["deploy", &files.path().display().to_string(), "--project", PROJECT])?;
    Ok(files)
}

fn scenarios(servers: usize) -> Vec<Scenario> {
    let scenario =
        |name: String, kind, path| Scenario { name, kind, path, rounds: (0..servers).map(|_| Vec::new()).collect() };
    let mut all = Vec::new();
    for (protocol, kind) in [("HTTP/1.1", ScenarioKind::H1), ("HTTP/2", ScenarioKind::H2)] {
        all.extend(FILES.map(|(size, path, _)| scenario(format!("{protocol}, {size}"), kind, path)));
    }
    all.push(scenario("full handshakes".to_owned(), ScenarioKind::Handshakes, ""));
    all
}

impl ScenarioKind {
    fn run(self, target: &LoadTarget<'_>, seconds: u32, world: &BenchWorld, work: &Path) -> anyhow::Result<LoadResult> {
        match self {
            Self::H1 => load::wrk(target, seconds),
            Self::H2 => load::h2load(target, seconds, &work.join("h2load.log")),
            Self::Handshakes => load::handshakes(target, seconds, &world.up.ca_file),
        }
    }
}

impl RoundFigures {
    fn measured(server: &PeerServer, run: impl FnOnce() -> anyhow::Result<LoadResult>) -> anyhow::Result<Self> {
        let before = cpu::spent(server.program.id());
        let load = run()?;
        let spent = cpu::spent(server.program.id()).saturating_sub(before);
        Ok(Self {
            per_cpu_second: load.requests / spent.as_secs_f64().max(0.01),
            per_second: load.per_second,
            p99_ms: load.p99.as_secs_f64() * 1e3,
        })
    }
}

impl Scenario {
    fn medians(&self, of: impl Fn(&RoundFigures) -> f64) -> Vec<f64> {
        self.rounds.iter().map(|rounds| median(&rounds.iter().map(&of).collect::<Vec<_>>())).collect()
    }

    /// Returns the edge's requests per CPU second relative to those of the server at this index.
    fn ratio_to(&self, server: usize) -> f64 {
        let medians = self.medians(|round| round.per_cpu_second);
        medians.first().zip(medians.get(server)).map_or(0.0, |(own, other)| own / other.max(1e-9))
    }

    fn per_cpu_second(&self) -> Vec<Vec<f64>> {
        self.rounds.iter().map(|rounds| rounds.iter().map(|round| round.per_cpu_second).collect()).collect()
    }

    fn line(&self) -> String {
        self.medians(|round| round.per_cpu_second).into_iter().map(format_number).collect::<Vec<_>>().join(" | ")
    }
}

fn report(scenarios: &[Scenario], servers: &[&str], ranges: &RatioRanges, effort: BenchEffort) -> String {
    let mut text = format!(
        "One server core, one load core, TLS 1.3, the same ECDSA P-256 certificate, bodies of random bytes. {} rounds of {} s, \
         interleaved; medians, and in brackets how far the rounds are apart.\nVersions: {}.\n\nPer CPU second of the server (user and system time of all its \
         processes); the last column has svc ÷ nginx on every machine so far, and how many these are:\n\n| | svc | nginx | nginx \
         without file cache | Caddy | h2o | svc ÷ nginx | svc ÷ the other nginx | svc ÷ Caddy | svc ÷ h2o | on every machine \
         |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        effort.rounds,
        effort.seconds,
        peers::versions().join(", ")
    );
    for scenario in scenarios {
        let per_cpu = scenario.medians(|round| round.per_cpu_second);
        let cells: Vec<String> = scenario.per_cpu_second().iter().map(|rounds| format_rounds(rounds)).collect();
        let (cells, range) = (cells.join(" | "), ranges.shown(&scenario.name));
        let _ = writeln!(text, "| {} | {cells} | {} | {range} |", scenario.name, ratios(&per_cpu));
    }
    let rounds: Vec<(String, Vec<f64>)> = scenarios
        .iter()
        .flat_map(|scenario| {
            let named = servers.iter().map(|server| format!("{server}, {}", scenario.name));
            named.zip(scenario.per_cpu_second())
        })
        .collect();
    text.push_str(&uneven_rounds(rounds.iter().map(|(name, values)| (name.clone(), values.as_slice()))));
    text.push_str("\nWall clock, per second, and 99th percentile of latency in ms:\n\n");
    text.push_str(
        "| | svc | nginx | nginx without file cache | Caddy | h2o | p99 svc | nginx | the other nginx | Caddy | h2o |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for scenario in scenarios {
        let wall = scenario.medians(|round| round.per_second);
        let p99 = scenario.medians(|round| round.p99_ms);
        let _ = writeln!(text, "| {} | {} | {} |", scenario.name, cells(&wall), cells(&p99));
    }
    text
}

fn cells(values: &[f64]) -> String {
    values.iter().map(|value| format_number(*value)).collect::<Vec<_>>().join(" | ")
}

fn ratios(values: &[f64]) -> String {
    let own = values.first().copied().unwrap_or_default();
    values.iter().skip(1).map(|other| format!("{:.2}", own / other.max(1e-9))).collect::<Vec<_>>().join(" | ")
}

/// Returns random bytes, which no server can compress, so that all send the same.
fn random_bytes(size: usize) -> anyhow::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = vec![0; size];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Writes the certificate and key that the edge itself presents to `folder` for the peers.
fn leaf(world: &BenchWorld, folder: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let config = Config::load(Some(&world.up.config_file))?;
    let master_key = MasterKey::load(&config.secrets.master_key_file)?;
    let names = [format!("*.{}", config.site.site_domain)];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stored = runtime.block_on(async {
        let db = db::connect(&config.postgres, &config.postgres.url)?;
        db::certificates::find_covering(&db, &names, domain::Clock::system().now()).await
    })?;
    let stored = stored.context("no certificate for the sites is stored")?;
    let (chain, key) = (folder.join("chain.pem"), folder.join("key.pem"));
    fs::write(&chain, &stored.chain_pem)?;
    fs::write(&key, stored.open_key(&master_key)?)?;
    Ok((chain, key))
}
