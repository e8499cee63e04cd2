//! One round of measurements of one gateway, freshly started and alone on its core.

use std::{
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};

use super::{
    GatewayCandidate, LOAD_CORE,
    ask::{ClientArguments, ClientResult, STALL},
    peers::RunningGateway,
};
use crate::{BenchEffort, cpu, world::BenchWorld};

pub(super) const CLIENTS: usize = 32;
/// The numbers of concurrently open streams, each with the milliseconds between the chunks of a stream.
pub(super) const OPEN: [(usize, u32); 4] = [(1, 10), (10, 10), (100, 20), (1_000, 50)];
/// The provider's pause in milliseconds after the first chunk of the streams whose latency is measured. The client
/// shares its core: without a pause, it often sees the first chunk only after all others were sent.
const PAUSE: u32 = 2;
/// The number of open streams that a slow gateway gets in every round.
const SLOW_OPEN: usize = 100;
/// Seconds of requests, and then of streams, before the measurement.
const WARM: u32 = 1;
const LOOK: Duration = Duration::from_millis(50);
/// The tolerated share of streams with a wait as long as a stall: a busy machine causes a few.
const STALLS: f64 = 0.05;

/// The figures of one gateway; every list has one value per round.
#[derive(Default)]
pub(super) struct GatewayFigures {
    /// Responses per second of the gateway's CPU time.
    pub(super) json_per_cpu: Vec<f64>,
    pub(super) streams_per_cpu: Vec<f64>,
    /// Seconds that the gateway adds to those of the provider alone.
    pub(super) json_p50: Vec<f64>,
    pub(super) json_p99: Vec<f64>,
    pub(super) first_p50: Vec<f64>,
    pub(super) first_p99: Vec<f64>,
    /// The longest wait in a stream in seconds, and the share of streams that stall.
    pub(super) wait_p50: Vec<f64>,
    pub(super) stalled: Vec<f64>,
    /// Bytes per stream and share of the core, by number of open streams ([`OPEN`]).
    pub(super) open: [Vec<OpenStreams>; OPEN.len()],
    /// Seconds of CPU time of PostgreSQL, Redis and admin for one of our JSON responses.
    pub(super) beside: Vec<f64>,
}

#[derive(Clone, Copy)]
pub(super) struct OpenStreams {
    pub(super) bytes: f64,
    pub(super) share: f64,
}

impl GatewayFigures {
    /// Returns whether more streams stall than a busy machine explains.
    pub(super) fn has_stalls(&self) -> bool {
        self.stalled.iter().copied().fold(0.0, f64::max) >= STALLS
            || self.json_p50.iter().any(|seconds| *seconds >= STALL.as_secs_f64())
    }
}

/// The figures of the provider without a gateway; every list has one value per round.
#[derive(Default)]
pub(super) struct ProviderBaseline {
    pub(super) json: Vec<ClientResult>,
    pub(super) streams: Vec<ClientResult>,
}

impl ProviderBaseline {
    pub(super) fn measure(&mut self, direct: &ClientArguments, effort: BenchEffort) -> anyhow::Result<()> {
        let seconds = effort.seconds;
        self.json.push(ask(&ClientArguments { seconds, ..direct.clone() }).context("the provider alone")?);
        let streams = ClientArguments { seconds, stream: true, pause: Some(PAUSE), ..direct.clone() };
        self.streams.push(ask(&streams).context("the provider alone")?);
        Ok(())
    }
}

pub(super) fn measure(
    gateway: &RunningGateway,
    candidate: &mut GatewayCandidate<'_>,
    world: &BenchWorld,
    alone: &ProviderBaseline,
    effort: BenchEffort,
) -> anyhow::Result<()> {
    let with = |stream, clients, seconds| ask(&ClientArguments { stream, clients, seconds, ..gateway.asking.clone() });
    let figures = &mut candidate.figures;
    let is_first_round = figures.json_per_cpu.is_empty();
    with(false, 1, WARM).context("the first answers")?;
    let mut at_rest = f64::INFINITY;
    if candidate.streams {
        with(true, 1, WARM).context("the first streams")?;
        for (index, (clients, _)) in OPEN.into_iter().enumerate() {
            if clients <= SLOW_OPEN || !candidate.slow {
                figures.open[index].push(open(gateway, index, &mut at_rest)?);
            }
        }
        let paused =
            ClientArguments { stream: true, seconds: effort.seconds, pause: Some(PAUSE), ..gateway.asking.clone() };
        let (direct, through) = (alone.streams.last().context("measured first")?, ask(&paused)?);
        figures.first_p50.push(through.first_p50 - direct.first_p50);
        figures.first_p99.push(through.first_p99 - direct.first_p99);
        figures.wait_p50.push(through.wait_p50);
        figures.stalled.push(through.stalled);
    }
    let (direct, through) = (alone.json.last().context("measured first")?, with(false, 1, effort.seconds)?);
    figures.json_p50.push(through.whole_p50 - direct.whole_p50);
    figures.json_p99.push(through.whole_p99 - direct.whole_p99);

    let spent = || (cpu::spent(gateway.program.id()), world.spent());
    let cost = |stream| {
        let (own, beside) = spent();
        let asked = with(stream, CLIENTS, effort.seconds).with_context(|| format!("{CLIENTS} clients"))?;
        let (own_after, beside_after) = spent();
        let per_cpu = asked.answers / own_after.saturating_sub(own).as_secs_f64().max(0.01);
        anyhow::Ok((per_cpu, beside_after.saturating_sub(beside).as_secs_f64() / asked.answers))
    };
    let (per_cpu, beside) = cost(false)?;
    figures.json_per_cpu.push(per_cpu);
    if candidate.own {
        figures.beside.push(beside);
    }
    if candidate.streams {
        figures.streams_per_cpu.push(cost(true)?.0);
    }
    if candidate.streams && candidate.slow && is_first_round && effort.rounds > 1 {
        // Last, because a slow gateway may fail here: its earlier results are kept.
        for (index, (clients, _)) in OPEN.into_iter().enumerate() {
            if clients > SLOW_OPEN {
                figures.open[index].push(open(gateway, index, &mut at_rest)?);
            }
        }
    }
    Ok(())
}

/// Measures the streams of [`OPEN`] at `index`: the peak memory while they are open, relative to `at_rest`, the minimum
/// since the warm-up, because an allocator returns memory only gradually.
fn open(gateway: &RunningGateway, index: usize, at_rest: &mut f64) -> anyhow::Result<OpenStreams> {
    let (id, (clients, pace)) = (gateway.program.id(), OPEN[index]);
    let asking = ClientArguments { stream: true, clients, pace: Some(pace), ..gateway.asking.clone() };
    let (spent, began) = (cpu::spent(id), Instant::now());
    let mut running = command(&asking)?.spawn()?;
    let mut most = 0.0_f64;
    while running.try_wait()?.is_none() {
        let held = cpu::resident_all(id);
        (most, *at_rest) = (most.max(held), at_rest.min(held));
        sleep(LOOK);
    }
    let share = cpu::spent(id).saturating_sub(spent).as_secs_f64() / began.elapsed().as_secs_f64();
    let output = running.wait_with_output()?;
    if !output.status.success() {
        bail!("{clients} open streams: {}", on_one_line(&output.stderr));
    }
    #[expect(clippy::cast_precision_loss, reason = "a thousand at most")]
    let bytes = (most - *at_rest).max(0.0) / clients as f64;
    Ok(OpenStreams { bytes, share })
}

/// Runs a copy of this program on the load core.
fn command(asking: &ClientArguments) -> anyhow::Result<Command> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--", "taskset", "-c", &LOAD_CORE.to_string()]);
    command.arg(std::env::current_exe()?).arg("ask");
    command.args(["--port", &asking.port.to_string(), "--host", &asking.host, "--path", &asking.path]);
    command.args(["--model", &asking.model, "--clients", &asking.clients.to_string()]);
    command.args(["--seconds", &asking.seconds.to_string()]);
    for header in &asking.header {
        command.args(["--header", header]);
    }
    if let Some(ca_file) = &asking.ca_file {
        command.arg("--ca-file").arg(ca_file);
    }
    if asking.stream {
        command.arg("--stream");
    }
    if asking.at_limit {
        command.arg("--at-limit");
    }
    for (option, millis) in [("--pace", asking.pace), ("--pause", asking.pause)] {
        if let Some(millis) = millis {
            command.args([option, &millis.to_string()]);
        }
    }
    // The error is shown in a table, which has no room for a backtrace.
    command.env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

pub(super) fn ask(asking: &ClientArguments) -> anyhow::Result<ClientResult> {
    let output = command(asking)?.output()?;
    ensure!(output.status.success(), "{}", on_one_line(&output.stderr));
    serde_json::from_slice(&output.stdout).context("what the clients said")
}

fn on_one_line(said: &[u8]) -> String {
    String::from_utf8_lossy(said).split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect()
}
