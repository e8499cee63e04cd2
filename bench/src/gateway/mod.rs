//! Measures the AI gateway and its peers in front of one provider: latency, cost, and the memory of an open stream.
//!
//! [`provider`] is the provider and [`ask`] the clients, both on the load core; [`peers`] starts the gateways, one at a
//! time on the server core; [`round`] measures each, [`refusals`] only ours, and [`report`] has the tables.

pub(crate) mod ask;
mod peers;
pub(crate) mod provider;
mod refusals;
mod report;
mod round;

use std::{
    net::TcpStream,
    path::Path,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use self::{
    ask::ClientArguments,
    peers::{GatewaySetup, PEERS, RunningGateway},
    refusals::RefusalFigures,
    round::{GatewayFigures, ProviderBaseline},
};
use crate::{
    BenchEffort,
    machine::Machine,
    printed::{self, TestSuite},
    ranges::RatioRanges,
    world::{BenchWorld, RunningProgram, free_port},
};

const SERVER_CORE: u32 = 0;
const LOAD_CORE: u32 = 1;
/// The timeout until the provider accepts connections.
const START: Duration = Duration::from_secs(10);
const MODEL: &str = "svc/gpt-oss-20b";
/// Limits that no run reaches; usage is counted anyway.
const NO_LIMITS: [(&str, &str); 5] = [
    ("SVC__LIMITS__GATEWAY_PER_MIN", "1000000000"),
    ("SVC__LIMITS__GATEWAY_CONCURRENT", "1000000"),
    ("SVC__LIMITS__GATEWAY_TOKENS_PER_DAY", "1000000000000"),
    ("SVC__EDGE__CONNECTIONS_PER_CLIENT", "100000"),
    ("SVC__BILLING__PLANS", PLANS),
];
/// A limit that every request after the first of a minute exceeds.
const AT_LIMIT: (&str, &str) = ("SVC__LIMITS__GATEWAY_PER_MIN", "1");
/// A plan whose credit no run uses up.
const PLANS: &str = r#"{"free":{"name":"Free","price_cents":0,"limits":{"projects":1,"domains":1,"ready_apps":0,"bandwidth_bytes":1,"ai_credit_cents":4000000000}}}"#;

struct GatewayCandidate<'c> {
    name: &'static str,
    /// Whether it is ours: the bench fails if ours cannot answer a request.
    own: bool,
    streams: bool,
    /// Whether a thousand open streams are measured only once (with `--quick` not at all), because it is slow.
    slow: bool,
    start: Box<dyn Fn() -> anyhow::Result<RunningGateway> + 'c>,
    figures: GatewayFigures,
}

pub(crate) fn measure(world: &BenchWorld, machine: &Machine, effort: BenchEffort) -> anyhow::Result<String> {
    let work = tempfile::tempdir()?;
    let (_provider, port) = start_provider(work.path())?;
    let setting = GatewaySetup { folder: work.path(), provider: port, core: SERVER_CORE };
    let token = new_key(world)?;
    let mut candidates = candidates(world, &setting, &token);

    let direct = peers::provider(port);
    let mut alone = ProviderBaseline::default();
    let mut refusals = RefusalFigures::default();
    let mut missing: Vec<String> = Vec::new();
    for number in 1..=effort.rounds {
        alone.measure(&direct, effort)?;
        // One at a time, each alone on its core; round by round, so that other load on the machine affects all of them.
        for candidate in &mut candidates {
            // A gateway that failed in an earlier round is skipped.
            if candidate.figures.json_per_cpu.len() + 1 < number {
                continue;
            }
            eprintln!("round {number} of {}: {}", effort.rounds, candidate.name);
            let done = (candidate.start)()
                .context("it did not start")
                .and_then(|gateway| round::measure(&gateway, candidate, world, &alone, effort));
            match done {
                Ok(()) => {}
                Err(error) if candidate.own => {
                    return Err(error.context(format!("our own gateway, {}", candidate.name)));
                }
                Err(error) => missing.push(format!("{}, round {number}: {error:#}", candidate.name)),
            }
        }
        refusals.measure(&svc(world, port, &token, false, &[AT_LIMIT])?, world, effort)?;
    }
    let vanished = printed::rows(world, TestSuite::BlackBox, "metering::figures::")?;
    let all: Vec<(&str, &GatewayFigures)> = candidates.iter().map(|it| (it.name, &it.figures)).collect();
    let ranges = RatioRanges::with("gateway", machine, report::ratios(&all), effort.is_kept)?;
    Ok(report::text(&all, &alone, &refusals, &ranges, &missing, effort) + &report::vanished(&vanished))
}

/// Runs requests through our gateway, whole and streamed, with one client and many, for `seconds` each.
pub(crate) fn train(world: &BenchWorld, seconds: u32) -> anyhow::Result<()> {
    let work = tempfile::tempdir()?;
    let (_provider, port) = start_provider(work.path())?;
    let gateway = svc(world, port, &new_key(world)?, false, &[])?;
    for (stream, clients) in [(false, 1), (true, 1), (false, round::CLIENTS), (true, round::CLIENTS)] {
        round::ask(&ClientArguments { stream, clients, seconds, ..gateway.asking.clone() })?;
    }
    Ok(())
}

/// Starts the provider on a free port. Returns both.
fn start_provider(work: &Path) -> anyhow::Result<(RunningProgram, u16)> {
    let port = free_port()?;
    let mut command = Command::new("taskset");
    command.args(["-c", &LOAD_CORE.to_string()]).arg(std::env::current_exe()?).args(["provide", &port.to_string()]);
    let provider = RunningProgram::start(&command, &work.join("provider.out"))?;
    let deadline = Instant::now() + START;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(Instant::now() < deadline, "the provider did not start");
        sleep(Duration::from_millis(20));
    }
    Ok((provider, port))
}

fn new_key(world: &BenchWorld) -> anyhow::Result<String> {
    let said: serde_json::Value = serde_json::from_str(&world.svc(&["tokens", "create", "--kind", "ai", "--json"])?)?;
    Ok(said["token"].as_str().context("a token")?.to_owned())
}

/// Returns our gateway, over plain HTTP and over TLS, and its peers.
fn candidates<'c>(world: &'c BenchWorld, setting: &'c GatewaySetup<'c>, token: &str) -> Vec<GatewayCandidate<'c>> {
    let chat = peers::provider(0).path;
    let own = [
        ("svc", false, chat.as_str()),
        ("svc over TLS", true, &chat),
        (report::RESPONSES, false, ask::RESPONSES),
        (report::MESSAGES, false, ask::MESSAGES),
    ];
    let own = own.map(|(name, over_tls, path)| {
        let (token, path) = (token.to_owned(), path.to_owned());
        let start = move || {
            let mut gateway = svc(world, setting.provider, &token, over_tls, &[])?;
            gateway.asking.path.clone_from(&path);
            Ok(gateway)
        };
        GatewayCandidate {
            name,
            own: true,
            streams: true,
            slow: false,
            start: Box::new(start),
            figures: GatewayFigures::default(),
        }
    });
    let peers = PEERS.iter().map(|peer| GatewayCandidate {
        name: peer.name,
        own: false,
        streams: peer.streams,
        slow: peer.slow,
        start: Box::new(|| (peer.start)(setting)),
        figures: GatewayFigures::default(),
    });
    own.into_iter().chain(peers).collect()
}

fn svc(
    world: &BenchWorld,
    provider: u16,
    token: &str,
    over_tls: bool,
    limits: &[(&str, &str)],
) -> anyhow::Result<RunningGateway> {
    let url = format!("http://127.0.0.1:{provider}");
    let mut environment = NO_LIMITS.to_vec();
    environment.extend(limits);
    environment.extend([("SVC__GATEWAY__PROVIDER_URL", url.as_str()), ("SVC__EDGE__HTTP_MODE", "serve")]);
    let edge = world.edge_with(Some(SERVER_CORE), &environment)?;
    let asking = ClientArguments {
        host: world.host("ai"),
        model: MODEL.to_owned(),
        header: vec![format!("authorization: Bearer {token}")],
        ca_file: over_tls.then(|| world.up.ca_file.clone()),
        ..peers::provider(if over_tls { edge.port } else { edge.http_port })
    };
    Ok(RunningGateway { program: edge.program, asking })
}
